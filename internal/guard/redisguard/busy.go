package redisguard

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/refusal"
)

// retryWhileBusy repeats a call while Redis is busy with a script, perhaps the older leader's, or
// loads its data. It stops when the admission runs out of time.
func (c *conn) retryWhileBusy(
	admission context.Context, claims []marks.Presented, call func() error,
) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var busy serverError
	for {
		err := call()
		switch answered, ok := errors.AsType[serverError](err); {
		case ok && isBusy(answered):
			busy = answered
		case busy != nil && timedOut(admission, err):
			return c.slowRefusal(claims, busy, err)
		default:
			return err
		}
		select {
		case <-tick.C:
		case <-admission.Done():
			return c.slowRefusal(claims, busy, admission.Err())
		}
	}
}

// isBusy reports whether the server will answer later.
func isBusy(answer serverError) bool {
	return bytes.HasPrefix(answer, []byte("-BUSY")) || bytes.HasPrefix(answer, []byte("-LOADING"))
}

// timedOut reports whether an admission has failed because it ran out of time.
func timedOut(admission context.Context, err error) bool {
	r, refused := errors.AsType[*fence.Refusal](err)
	if errors.Is(err, guard.Full) || errors.Is(err, errFull) || refused &&
		r.Reason != fence.ErrUnrevoked {
		return false
	}
	return admission.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded)
}

// timeoutRefusal refuses an admission that ran out of time. It keeps an error that already gives
// the reason.
func (c *conn) timeoutRefusal(claims []marks.Presented, err error) error {
	if r, ok := errors.AsType[*fence.Refusal](err); ok && r.Claim.Resource != "" {
		return err
	}
	return c.slowRefusal(claims, err, err)
}

// slowRefusal refuses a newcomer because Redis answered it with an error such as BUSY, or did not
// answer in time.
func (c *conn) slowRefusal(claims []marks.Presented, reason, cause error) error {
	first := claims[0].Under("")
	switch answered, ok := errors.AsType[serverError](reason); {
	case ok:
		return refusal.RedisSilent(first, strings.TrimPrefix(answered.Error(), "-"), cause)
	case c.session != (marks.SessionID{}): // Redis has answered the commands that only read
		return refusal.RedisSlow(first, summary(reason), cause)
	}
	return refusal.RedisSilent(first, refusal.Silence+": "+summary(reason), cause)
}

// summary is an error's text without the hint of a refusal: the refusal around it has its own hint.
func summary(err error) string {
	if r, ok := errors.AsType[*fence.Refusal](err); ok {
		return cmp.Or(r.Detail, r.Message)
	}
	return err.Error()
}
