package check

import (
	"strings"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lab/history"
)

// age orders tokens.
type age = history.Age

// op is one operation, from its Invoke to its Return.
//
// The process may have been frozen after it wrote the Invoke and before it sent the operation, and
// after the answer came and before it wrote the Return. So invoked is a lower bound of the time of
// sending, and returned an upper bound of the time of the answer. A conclusion from "that one
// returned before this one was invoked" is therefore sound.
type op struct {
	id, process, store, key, text string

	do       history.Do
	attempt  int // of a job
	token    fence.Token
	age      age
	outcome  history.Outcome // Unknown if there is no Return
	invoked  int64
	returned int64 // history.Never if there is no Return
}

// when returns when the process knew the outcome, or when it began if it never knew.
func (o *op) when() int64 {
	if o.returned == history.Never {
		return o.invoked
	}
	return o.returned
}

func (o *op) ok() bool { return o.outcome == history.OK }

// work reports whether it is more than a raise of the mark.
func (o *op) work() bool { return o.do != history.Raise }

// notCommitted reports whether the answer says so. An unknown outcome says neither.
func (o *op) notCommitted() bool {
	switch o.outcome {
	case history.Stale, history.Refused, history.Failed:
		return true
	}
	return false
}

// calledStale reports whether the answer named a stale token as its reason, also where the answer
// to the write itself was lost.
func (o *op) calledStale() bool {
	byCode := strings.HasPrefix(o.text, "RF001") || strings.HasPrefix(o.text, "STALETOKEN")
	return o.outcome == history.Stale || o.outcome == history.Unknown && byCode
}
