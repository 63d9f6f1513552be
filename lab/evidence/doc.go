// Package evidence makes the databases keep evidence, and reads it after a run: what was committed,
// in which order.
package evidence
