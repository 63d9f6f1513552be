package check

import (
	"strings"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lab/history"
)

// op is one operation, from its Invoke to its Return.
//
// The process may have been frozen between the sending and what came before it, and between the answer and the writing
// down of it. So invoked is a lower bound of the time when it was sent and returned an upper bound of the time when it was
// answered: the true interval lies within, and whatever is concluded from "returned before that one was invoked" is so.
type op struct {
	id, process, store, key, text string

	do       history.Do
	token    fence.Token
	age      age
	outcome  history.Outcome // Unknown when there is no Return
	invoked  int64
	returned int64 // never, when there is no Return
}

// never is later than everything.
const never = int64(1) << 62

// known is when the process knew what had become of it, or when it began, if it never knew.
func (o *op) known() int64 {
	if o.returned == never {
		return o.invoked
	}
	return o.returned
}

func (o *op) ok() bool { return o.outcome == history.OK }

// work tells that it is not about the mark alone.
func (o *op) work() bool { return o.do != history.Raise }

// nothingLanded tells that the answer says so. An unknown outcome says neither this nor the contrary.
func (o *op) nothingLanded() bool {
	return o.outcome == history.Stale || o.outcome == history.Refused || o.outcome == history.Failed
}

// calledStale tells that the answer gave the token's age as its reason, also where the answer to the write itself was lost.
func (o *op) calledStale() bool {
	return o.outcome == history.Stale ||
		o.outcome == history.Unknown && (strings.HasPrefix(o.text, "RF001") || strings.HasPrefix(o.text, "STALETOKEN"))
}
