// Package unfinished says what to do with a step that an earlier leader has begun and not seen to
// end.
package unfinished

// Decision says what to do with a step that was started and not seen to end.
type Decision int

const (
	RunAgain Decision = iota // run it again, with the same key
	Stop                     // stop the task; an operator decides
	Finished                 // it has ended: continue with the next step
)
