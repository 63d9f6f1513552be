package redis

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard"
	"github.com/ringfence/ringfence/store"
)

// claim admits the session, or answers why not, in the time for one admission as a whole. Only with the answer does the
// client know that it may write.
func (c *conn) claim(ctx context.Context, raw []byte, own bool, claims []fence.Claim) error {
	c.seat.Working()
	admission, cancel := context.WithTimeout(ctx, cmp.Or(c.p.o.Admission.Timeout, 10*time.Second))
	defer cancel()
	answer, err := c.admission(ctx, admission, raw, own, claims)
	if err == nil {
		_, err = c.tell(answer)
		return err
	}
	if c.leg != nil {
		_ = c.leg.Close() // the client may take long to leave
	}
	told := c.refused(ctx, own, late(admission, claims, err))
	if errors.Is(err, guard.Full) {
		return err // to be counted
	}
	return told
}

// admission returns the answer to a claim, which need not be that it is admitted: the login may have failed. A command
// that carries the claim in a client name is forwarded first, and its reply is held back; FENCE is the guard's own.
func (c *conn) admission(ctx, admission context.Context, raw []byte, own bool, claims []fence.Claim) ([]byte, error) {
	for i := range claims {
		claims[i].Holder = guard.Peer(c.client) // for people, until the coordinator knows better
	}
	if err := c.p.early(admission, claims); err != nil {
		return nil, err
	}
	if err := c.reach(ctx, admission); err != nil {
		return nil, err
	}
	until, _ := admission.Deadline()
	c.leg.answerBy(ctx, until)
	defer c.leg.answerBy(ctx, time.Time{})
	held := bytes.NewBufferString("+OK\r\n")
	if !own {
		held.Reset()
		if _, err := c.leg.Conn.Write(raw); err != nil {
			return nil, err
		}
		if kind, err := c.leg.reply(held, answers{c}); err != nil || kind == '-' { // the login failed, so nothing is claimed
			return held.Bytes(), err
		}
	}
	err := c.admit(admission, claims)
	var answered serverError
	if errors.As(err, &answered) && c.session == (store.Session{}) {
		return answered, nil // not logged in, or not allowed to: nothing was raised
	}
	if err == nil {
		err = c.seat.Admit(admission)
	}
	if err != nil {
		return nil, err
	}
	c.claims = claims
	return held.Bytes(), nil
}

// early refuses claims for which the server need not be asked.
func (p *Protocol) early(ctx context.Context, claims []fence.Claim) error {
	err := p.serves(claims)
	if err == nil {
		err = p.o.Admission.Known(ctx, claims)
	}
	var r *fence.Refusal
	if errors.As(err, &r) && p.o.Admission.Notify != nil {
		p.o.Admission.Notify(store.Event{Kind: store.Refused, Claim: r.Claim, Err: err})
	}
	return err
}

// late is the refusal of an admission that ran out of time; any other error stays as it is.
func late(admission context.Context, claims []fence.Claim, err error) error {
	var r *fence.Refusal
	var full guard.FullError
	if errors.As(err, &r) || errors.As(err, &full) || admission.Err() == nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return store.Unrevoked(claims[0], "Redis did not answer in the time for an admission: "+err.Error(), err)
}

// admit identifies the session and opens it. A client that is not logged in gets no further than its own leg, so it
// cannot raise a mark.
func (c *conn) admit(ctx context.Context, claims []fence.Claim) error {
	id, name, nonce, err := c.mark(ctx, claims)
	if err != nil {
		return err
	}
	if c.session, err = c.p.o.Store.Identify(ctx, id, nonce); err != nil {
		return fmt.Errorf("the session could not be identified, nothing was admitted: %w", err)
	}
	if err := c.p.o.Admission.Admit(ctx, c.session, claims); err != nil {
		return err
	}
	// The answer also shows that the session was not ended meanwhile, with everybody else's, to mend a lost registry.
	if _, err := c.leg.ask(c.client, "CLIENT", "SETNAME", name); err != nil {
		return store.Unrevoked(claims[0], "the mark is raised, and this session was ended while it was admitted: "+err.Error(), err)
	}
	return nil
}

// mark gives the leg a name that nobody else can know, and returns its own name and the client's id.
func (c *conn) mark(ctx context.Context, claims []fence.Claim) (id int64, name, nonce string, err error) {
	text, err := c.patiently(ctx, claims, "CLIENT", "ID")
	if err != nil {
		return 0, "", "", err
	}
	if id, err = strconv.ParseInt(text, 10, 64); err != nil {
		return 0, "", "", err
	}
	if name, err = c.patiently(ctx, claims, "CLIENT", "GETNAME"); err != nil {
		return 0, "", "", err
	}
	nonce = rand.Text()
	_, err = c.patiently(ctx, claims, "CLIENT", "SETNAME", nonce)
	return id, name, nonce, err
}

// patiently asks on the leg again while a script holds the server up, which may be the older leader's; as long as an
// admission may take.
func (c *conn) patiently(ctx context.Context, claims []fence.Claim, words ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.p.o.Admission.Timeout, 10*time.Second))
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		value, err := c.leg.ask(c.client, words...)
		var answered serverError
		if !errors.As(err, &answered) || !bytes.HasPrefix(answered, []byte("-BUSY")) && !bytes.HasPrefix(answered, []byte("-LOADING")) {
			return value, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return "", busy(claims[0], err, ctx.Err())
		}
	}
}

// busy is the refusal of a newcomer whom Redis itself has kept waiting.
func busy(c fence.Claim, answered, cause error) error {
	return &fence.Refusal{
		Reason: fence.Unrevoked, Claim: c, Cause: cause,
		Message: fmt.Sprintf("Redis answers nobody, so no session of %q can be admitted", c.Resource),
		Detail:  answered.Error(),
		Hint:    "wait for the script, or end it (SCRIPT KILL needs no token); then try again with the same token",
	}
}

// serves refuses resources that this guard is not set up for.
func (p *Protocol) serves(claims []fence.Claim) error {
	for _, claim := range claims {
		if len(p.o.Resources) > 0 && !slices.Contains(p.o.Resources, claim.Resource) {
			r := badToken(fmt.Sprintf("resource %q is not served here", claim.Resource), fmt.Sprintf("this guard serves %v", p.o.Resources), nil)
			r.Claim = claim
			return r
		}
	}
	return nil
}
