// Package servers starts real servers for tests, benchmarks and the demo, each in its own directory
// under [os.TempDir], on free loopback ports. Another one is a file here, which also finds its
// program, a file in serverstest, which starts it for a test, and its package in scripts/deps.sh.
//
// Every server type embeds [Process]: it can be killed, stopped, paused, resumed and started again
// on the same port with the same data. Close ends it and removes the directory. On Linux a server
// also dies when the process that started it is killed, so no process stays behind.
//
// The package looks for the programs in PATH and in the directories of Debian's, Ubuntu's,
// Homebrew's and the Postgres packages. A missing program is a [MissingError], which says how to
// install it. Postgres and PgBouncer refuse to run as root, so for root they run as the OS user
// "postgres" (or else "nobody").
//
// Tests use the helpers in serverstest. This package does not link package testing.
package servers
