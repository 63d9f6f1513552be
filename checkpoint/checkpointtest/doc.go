// Package checkpointtest is the contract that every journal passes, and Memory, the reference
// journal that keeps everything in memory. A new journal is one folder and a test that calls Run;
// one in a database with transactions calls RunTransactor too.
//
// The contract speaks only through checkpoint.Journal, twice opened on one storage, and through a
// leader that the fixture makes and deposes.
package checkpointtest
