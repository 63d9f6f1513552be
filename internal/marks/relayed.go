package marks

import (
	"context"
	"slices"
	"sync"
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

// relayed holds the admitted sessions that this process relays.
type relayed struct {
	mu  sync.Mutex
	all map[fence.Resource]map[Session]relaying
}

type relaying struct {
	Relayed
	departed Departed
	token    fence.Token
	holder   string
	client   *Client
	since    time.Time
}

func (r *relayed) add(s Session, claims []Presented, client *Client, session Relayed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = make(map[fence.Resource]map[Session]relaying)
	}
	d := departed(s, claims)
	d.Quiet = true
	now := time.Now()
	for _, c := range claims {
		if r.all[c.Resource] == nil {
			r.all[c.Resource] = make(map[Session]relaying)
		}
		r.all[c.Resource][s] = relaying{session, d, c.Token, c.Holder, client, now}
	}
}

func (r *relayed) remove(all ...Departed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range all {
		for _, resource := range d.Resources {
			delete(r.all[resource], d.Session)
			if len(r.all[resource]) == 0 {
				delete(r.all, resource)
			}
		}
	}
}

// any reports whether there is a session of the resource.
func (r *relayed) any(resource fence.Resource) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all[resource]) > 0
}

// older lists the sessions of the claim's resource that are under an older token.
func (r *relayed) older(c fence.Claim) (older []relaying) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.all[c.Resource] {
		if s.token.Compare(c.Token) < 0 {
			older = append(older, s)
		}
	}
	return older
}

// Relaying tells the Admission that this process relays an admitted session, until it is released.
// When its resource goes to a newer leader, the session is ended here, without the server.
func (a *Admission) Relaying(
	ctx context.Context, s Session, claims []Presented, session Relayed,
) {
	a.relayed.add(s, claims, clientOf(ctx), session)
}

// quiet keeps the older sessions of this process from writing, without the server, as far as they
// are at rest. It returns those whose records the store has removed, so that nobody waits for them.
// The caller ends them. The mark must have been raised.
func (a *Admission) quiet(ctx context.Context, c fence.Claim) []relaying {
	quiet := slices.DeleteFunc(a.relayed.older(c), func(s relaying) bool { return !s.Quiet() })
	if len(quiet) == 0 {
		return nil
	}
	var all []Departed
	for _, s := range quiet {
		all = append(all, s.departed)
	}
	a.relayed.remove(all...)
	if a.Store.Release(ctx, all...) != nil { // revocation finds their records
		end(quiet)
		return nil
	}
	return quiet
}

func end(sessions []relaying) {
	for _, s := range sessions {
		s.End()
	}
}

// endIn ends sessions after a moment, unless stop is called before. The end of many keeps a server
// busy while it has to admit a new leader.
func endIn(d time.Duration, sessions []relaying) (stop func()) {
	if len(sessions) == 0 {
		return func() {}
	}
	t := time.AfterFunc(d, func() { end(sessions) })
	return func() { t.Stop() }
}

// Overtaken ends the older sessions of this process that are at rest, because another process says
// that it has raised the mark. It reads the mark itself: the caller may be mistaken.
func (a *Admission) Overtaken(ctx context.Context, r fence.Resource) {
	if !a.relayed.any(r) {
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
