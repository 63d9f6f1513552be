package marks

import (
	"context"
	"time"

	"github.com/ringfence/ringfence/fence"
)

// Relaying tells the Admission that this process relays an admitted session. When its resource goes
// to a newer leader, the session is ended here, without the server.
func (a *Admission) Relaying(s SessionID, claims []Presented, session Relayed) {
	a.sessions.relay(s, claims, session)
}

// quiet lets the older sessions of this process go that are at rest, so that nobody waits for their
// end. It returns them, and the caller ends them. The mark must have been raised. Sessions that
// only seemed to be at rest are ended at once: nothing more of them is passed on, and revocation
// finds their records.
func (a *Admission) quiet(ctx context.Context, c fence.Claim) (letGo []*entry) {
	quiet := a.sessions.quiet(c)
	if len(quiet) == 0 {
		return nil
	}
	awaitAnswers(ctx, quiet)
	var all []Departed
	for _, s := range quiet {
		d := s.departed
		d.Proof = s.proof.Statement
		all = append(all, d)
	}
	leaving, _ := a.Store.Release(ctx, all...)
	letGo, rest := a.sessions.letGo(quiet, leaving)
	end(rest)
	return letGo
}

// A backend at rest answers in less than a millisecond. A thousand on two processors need fifty.
const (
	proofTime     = 25 * time.Millisecond
	proofTimeEach = 250 * time.Microsecond
)

// awaitAnswers waits until each of these sessions has been answered, or ought to have been.
func awaitAnswers(ctx context.Context, quiet []*entry) {
	ctx, cancel := context.WithTimeout(ctx, proofTime+time.Duration(len(quiet))*proofTimeEach)
	defer cancel()
	for _, s := range quiet {
		select {
		case <-s.proof.Answered:
		case <-ctx.Done():
			return
		}
	}
}

func end(sessions []*entry) {
	for _, s := range sessions {
		s.relayed.End()
	}
}

// revokeGrace returns how long these sessions stay while older sessions of others are being let go
// and ended.
func revokeGrace(quiet []*entry) time.Duration {
	const least, each = 50 * time.Millisecond, 500 * time.Microsecond
	return least + time.Duration(len(quiet))*each
}

// endIn ends sessions after a moment, unless stop is called before. The end of many keeps a server
// busy while it has to admit a new leader.
func endIn(d time.Duration, sessions []*entry) (stop func()) {
	if len(sessions) == 0 {
		return func() {}
	}
	t := time.AfterFunc(d, func() { end(sessions) })
	return func() { t.Stop() }
}

// Overtaken ends the older sessions of this process that are at rest, because another process says
// that it has raised the mark. It reads the mark itself: the caller may be mistaken.
func (a *Admission) Overtaken(ctx context.Context, r fence.Resource) {
	if !a.sessions.relaysAny(r) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, a.Limit())
	defer cancel()
	start := time.Now()
	marks, _ := a.Store.Marks(ctx, r)
	for _, m := range marks {
		if !m.Confirmed {
			continue
		}
		a.learn(m)
		c := fence.Claim{Resource: m.Resource, Token: m.Token, Issuer: m.Issuer, Holder: m.Holder}
		quiet := a.quiet(ctx, c)
		endIn(revokeGrace(quiet), quiet)
		if len(quiet) > 0 {
			a.notify(ctx, Event{
				Kind: Revoked, Claim: c, Ended: len(quiet), Took: time.Since(start),
			})
		}
	}
}
