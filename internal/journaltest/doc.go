// Package journaltest has what journals in a coordinator must do in addition to the contract of
// package checkpointtest: their fence is the leader's candidate in the election, not a mark. Run
// tests it. The rest are helpers for the tests of these journals.
package journaltest
