// Package leadertest has helpers for the tests of leader and of its tasks: output to wait for,
// processes, and a database with the schema installed.
package leadertest
