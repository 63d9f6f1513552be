// Package markstest tests what every store must do, and has Model, a store in memory that other
// stores are compared with.
//
// A new store is one folder and a test that calls Run:
//
//	markstest.Run(t, func(t testing.TB) markstest.Fixture { … })
//
// The contract uses only marks.Store and marks.Admin, and proves what they promise with real client
// sessions of the database: a session has ended when a write through it fails and its open
// transaction has left nothing.
package markstest
