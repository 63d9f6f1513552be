package store

import (
	"context"
	"fmt"

	"github.com/ringfence/ringfence/fence"
)

// Authority says whose tokens may raise a mark.
type Authority interface {
	// Issuer is the issuer of the tokens that clients bring, asked now and never remembered: a coordinator that was
	// rebuilt may hand out the very number that the mark has.
	Issuer(ctx context.Context) (fence.Issuer, error)

	// Confirm agrees that a claim may raise this mark and returns it with what the authority knows better: issuer and
	// holder. Otherwise it returns an ErrNotLeader refusal.
	Confirm(ctx context.Context, c fence.Claim, m Mark) (fence.Claim, error)

	// Verifies tells whether Confirm asks somebody who knows, so that a token it agrees to does lead.
	Verifies() bool
}

// Unverified takes every higher token at its word, under an issuer the operator names (fence.Unverified by default). It
// is the weaker mode: whoever may log in may raise a mark with an invented token and lock the others out. It refuses
// only where a mark may have been lost, for it has nobody to ask what it was.
type Unverified struct{ Name fence.Issuer }

// Issuer is the configured name.
func (u Unverified) Issuer(context.Context) (fence.Issuer, error) {
	if u.Name == "" {
		return fence.Unverified, nil
	}
	return u.Name, nil
}

// Verifies is false.
func (u Unverified) Verifies() bool { return false }

// Confirm agrees unless the mark is unconfirmed.
func (u Unverified) Confirm(_ context.Context, c fence.Claim, m Mark) (fence.Claim, error) {
	if m.Confirmed {
		return c, nil
	}
	return c, &fence.Refusal{
		Reason: fence.NotLeader, Claim: c, Mark: m.Token,
		Message: fmt.Sprintf("the mark of %q may have been lost, and there is no coordinator to ask", c.Resource),
		Detail:  "the store was restarted, restored or failed over since the mark was raised, and this guard did not see it before",
		Hint:    fmt.Sprintf("set GUARD_COORDINATOR, or make sure that no older leader runs and run: guard adopt %s", c.Resource),
	}
}

// Elected lets a mark be raised by the current leader of the resource's election only.
type Elected struct{ Observer fence.Observer }

// Issuer is the coordinator's identity.
func (e Elected) Issuer(ctx context.Context) (fence.Issuer, error) {
	is, err := e.Observer.Issuer(ctx)
	if err != nil {
		return "", unasked(fence.Claim{}, err)
	}
	return is, nil
}

// Verifies is true.
func (e Elected) Verifies() bool { return true }

// Confirm asks the coordinator, now: the token has to be the one that leads. The issuer is read before and after the
// queue, so that a queue of a coordinator that was replaced meanwhile is not taken for the other one's.
func (e Elected) Confirm(ctx context.Context, c fence.Claim, m Mark) (fence.Claim, error) {
	before, err := e.Issuer(ctx)
	if err != nil {
		return c, err
	}
	queue, err := e.Observer.Candidates(ctx, c.Resource)
	if err != nil {
		return c, unasked(c, err)
	}
	if c.Issuer, err = e.Issuer(ctx); err != nil {
		return c, err
	}
	if c.Issuer != before {
		return c, unasked(c, fmt.Errorf("the coordinator was replaced while it was asked: issuer %s became %s", before, c.Issuer))
	}
	if len(queue) > 0 && queue[0].Token == c.Token {
		c.Holder = queue[0].Holder
		return c, nil
	}
	return c, notLeader(c, m, queue)
}

func notLeader(c fence.Claim, m Mark, queue []fence.Candidate) error {
	r := &fence.Refusal{
		Reason: fence.NotLeader, Claim: c, Mark: m.Token,
		Message: fmt.Sprintf("token %s does not lead %q", c.Token, c.Resource),
		Detail:  fmt.Sprintf("nobody leads %q at the coordinator now", c.Resource),
		Hint:    "present the token of a term that was won: a token may raise the mark only while its holder leads",
	}
	if len(queue) > 0 {
		r.Detail = fmt.Sprintf("the leader of %q is %s with token %s", c.Resource, queue[0].Holder, queue[0].Token)
	}
	for i, waiting := range queue {
		if i > 0 && waiting.Token == c.Token {
			r.Detail += fmt.Sprintf("; %s waits in place %d of the queue", waiting.Holder, i+1)
		}
	}
	return r
}

// unasked refuses because the coordinator did not answer: a mark is never raised on trust.
func unasked(c fence.Claim, err error) error {
	return &fence.Refusal{
		Reason: fence.NotLeader, Claim: c, Cause: err,
		Message: "the coordinator could not be asked whose token this is",
		Detail:  err.Error(),
		Hint:    "nothing was written; sessions under the present mark go on; try again when the coordinator answers",
	}
}
