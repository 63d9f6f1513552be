// Package servers starts real ZooKeeper, Postgres, Redis and PgBouncer
// processes for tests and the demo, each in a directory of its own under
// [os.TempDir], on free loopback ports.
//
// Every server type embeds [Process]: it can be killed, stopped, paused,
// resumed and started again on the same port with the same data. Close ends it
// and removes the directory. On Linux a server also dies when the process that
// started it is killed, so nothing stays behind.
//
// The programs are found on PATH and where Debian, Ubuntu, Homebrew and the
// Postgres packages put them; a missing one is a [MissingError], which says how
// to install it. Postgres and PgBouncer refuse to run as root: for root they
// run as the OS user "postgres" (or else "nobody").
//
// Tests use the helpers in serverstest; this package does not link testing.
package servers
