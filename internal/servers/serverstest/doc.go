// Package serverstest gives tests real servers. A package that uses the shared
// ones, or wants the check for leaked goroutines, has this in a test file:
//
//	func TestMain(m *testing.M) { os.Exit(serverstest.RunMain(m)) }
//
// A server of a test's own ([Postgres], [Redis], [ZooKeeper], [PgBouncer]) may
// be killed, paused and stopped as the test likes. A shared one ([SharedPostgres]
// and so on) is started once per test binary, by the first test that asks; tests
// must leave it running, and keep apart by a [FreshDatabase] or names of their own.
//
// A missing program fails the test with the command that installs it: tests
// never skip silently. With go test -short every test that asks for a server is
// skipped.
package serverstest
