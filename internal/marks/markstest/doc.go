// Package markstest is the contract that every store passes, and Model, the reference store that keeps everything in
// memory. A new store is one folder and a test that calls Run.
//
// The contract speaks only through marks.Store and marks.Admin and proves what they say with real client sessions of
// the database: a session counts as ended when a write through it fails and what it had left open has left nothing.
package markstest
