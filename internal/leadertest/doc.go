// Package leadertest has what the tests of leader and of its tasks share: output that a test waits
// for, processes, and a database with the schema installed.
package leadertest
