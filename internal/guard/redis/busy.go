package redis

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

// patiently asks again while a script holds the server up, which may be the older leader's, or while it loads its data; as
// long as an admission may take.
func (c *conn) patiently(admission context.Context, claims []marks.Presented, ask func() error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var busy serverError
	for {
		err := ask()
		var answered serverError
		switch {
		case errors.As(err, &answered) && occupied(answered):
			busy = answered
		case busy != nil && outOfTime(admission, err):
			return c.held(claims, busy, err)
		default:
			return err
		}
		select {
		case <-tick.C:
		case <-admission.Done():
			return c.held(claims, busy, admission.Err())
		}
	}
}

// occupied tells whether the server will answer later.
func occupied(answer serverError) bool {
	return bytes.HasPrefix(answer, []byte("-BUSY")) || bytes.HasPrefix(answer, []byte("-LOADING"))
}

// outOfTime tells whether an admission has failed because its time is over.
func outOfTime(admission context.Context, err error) bool {
	var r *fence.Refusal
	if errors.Is(err, guard.Full) || errors.As(err, &r) && r.Reason != fence.ReasonUnrevoked {
		return false
	}
	return admission.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded)
}

// late is the refusal of an admission that has run out of time. One that says already what held it up stays as it is.
func (c *conn) late(claims []marks.Presented, err error) error {
	var r *fence.Refusal
	if errors.As(err, &r) && r.Claim.Resource != "" {
		return err
	}
	return c.held(claims, err, err)
}

// held is the refusal of a newcomer that Redis itself has kept waiting: with its error, or because it was silent.
func (c *conn) held(claims []marks.Presented, said, cause error) error {
	var answered serverError
	switch {
	case errors.As(said, &answered):
		return refusal.RedisSilent(claims[0].Under(""), strings.TrimPrefix(answered.Error(), "-"), cause)
	case c.session != (marks.Session{}): // it has answered what only reads
		return refusal.RedisSlow(claims[0].Under(""), brief(said), cause)
	}
	return refusal.RedisSilent(claims[0].Under(""), refusal.Silence+": "+brief(said), cause)
}

// brief is an error without what a refusal advises, for another refusal has its own advice.
func brief(err error) string {
	var r *fence.Refusal
	if errors.As(err, &r) {
		return cmp.Or(r.Detail, r.Message)
	}
	return err.Error()
}
