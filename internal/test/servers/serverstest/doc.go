// Package serverstest starts real servers for tests. A package that uses shared servers, or wants
// the check for leaked goroutines, has this in a test file:
//
//	func TestMain(m *testing.M) { os.Exit(serverstest.RunMain(m)) }
//
// A test may kill, pause and stop its own server ([Postgres], [Redis] and so on).
// The first test that needs a shared server ([SharedPostgres] and so on) starts it, once per test
// binary. Tests must leave it running, and use a [FreshDatabase] or unique names.
//
// If a program is missing, the test fails with the command that installs it; tests never skip
// silently. With go test -short, every test that needs a server is skipped.
package serverstest
