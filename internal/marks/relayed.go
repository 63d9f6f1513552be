package marks

import (
	"context"
	"time"

	"github.com/ringfence/ringfence/fence"
)

// Relayed is a session whose bytes this process relays.
type Relayed interface {
	// Quiet has the relay pass on nothing more of the client, provided that the server has answered
	// everything that it was passed, and reports whether that is so. A quiet session writes nothing
	// any more: what it has not committed is rolled back when it ends.
	Quiet() bool
	// End ends the session without waiting for it. It may be called twice.
	End()
}

// Relaying tells the Admission that this process relays an admitted session. When its resource goes
// to a newer leader, the session is ended here, without the server.
func (a *Admission) Relaying(s Session, claims []Presented, session Relayed) {
	a.sessions.relay(s, claims, session)
}

// quiet keeps the older sessions of this process from writing, without the server, as far as they
// are at rest. It returns those whose records the store has removed, so that nobody waits for them.
// The caller ends them. The mark must have been raised.
func (a *Admission) quiet(ctx context.Context, c fence.Claim) []*openSession {
	quiet := a.sessions.quiet(c)
	if len(quiet) == 0 {
		return nil
	}
	var all []Departed
	for _, s := range quiet {
		all = append(all, s.departed)
	}
	if a.Store.Release(ctx, all...) != nil { // revocation finds their records
		end(quiet)
		return nil
	}
	return quiet
}

func end(sessions []*openSession) {
	for _, s := range sessions {
		s.relayed.End()
	}
}

// endIn ends sessions after a moment, unless stop is called before. The end of many keeps a server
// busy while it has to admit a new leader.
func endIn(d time.Duration, sessions []*openSession) (stop func()) {
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
		endIn(50*time.Millisecond, quiet)
		if len(quiet) > 0 {
			a.notify(ctx, Event{
				Kind: Revoked, Claim: c, Ended: len(quiet), Took: time.Since(start),
			})
		}
	}
}
