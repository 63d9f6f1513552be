package marks

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/ringfence/ringfence/fence"
)

// OpenSession is an admitted session of this process, under one of its claims.
type OpenSession struct {
	Relayed // nil if this process cannot end it
	Claim   Presented
	Session Session
	Client  Client
	Since   time.Time // when it was admitted
}

// sessions holds the sessions that this process has admitted and not released yet.
type sessions struct {
	mu  sync.Mutex
	all map[fence.Resource]map[Session]*openSession
}

type openSession struct {
	relayed  Relayed
	departed Departed
	claim    Presented
	client   *Client
	since    time.Time
	ending   bool // it is quiet, and whoever found it so ends it
}

func (all *sessions) add(s Session, claims []Presented, client *Client) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.all == nil {
		all.all = make(map[fence.Resource]map[Session]*openSession)
	}
	d := departed(s, claims)
	d.Quiet = true
	now := time.Now()
	for _, c := range claims {
		if all.all[c.Resource] == nil {
			all.all[c.Resource] = make(map[Session]*openSession)
		}
		all.all[c.Resource][s] = &openSession{departed: d, claim: c, client: client, since: now}
	}
}

// relay records who can end a session.
func (all *sessions) relay(s Session, claims []Presented, by Relayed) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, c := range claims {
		if open := all.all[c.Resource][s]; open != nil {
			open.relayed = by
		}
	}
}

// remove reports whether the session was there.
func (all *sessions) remove(d Departed) (there bool) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, r := range d.Resources {
		there = there || all.all[r][d.Session] != nil
		delete(all.all[r], d.Session)
		if len(all.all[r]) == 0 {
			delete(all.all, r)
		}
	}
	return there
}

// relaysAny reports whether there is a session of the resource that can be ended here.
func (all *sessions) relaysAny(r fence.Resource) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, open := range all.all[r] {
		if open.relayed != nil && !open.ending {
			return true
		}
	}
	return false
}

// quiet makes those sessions quiet that are at rest and under an older token than the claim's, and
// returns them.
func (all *sessions) quiet(c fence.Claim) (quiet []*openSession) {
	all.mu.Lock()
	var older []*openSession
	for _, open := range all.all[c.Resource] {
		if open.relayed != nil && open.claim.Token.Compare(c.Token) < 0 {
			older = append(older, open)
		}
	}
	all.mu.Unlock()
	older = slices.DeleteFunc(older, func(s *openSession) bool { return !s.relayed.Quiet() })

	all.mu.Lock()
	defer all.mu.Unlock()
	for _, s := range older {
		if !s.ending {
			s.ending = true
			quiet = append(quiet, s)
		}
	}
	return quiet
}

func (all *sessions) list() (list []OpenSession) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, of := range all.all {
		for id, s := range of {
			list = append(list, OpenSession{s.relayed, s.claim, id, *s.client, s.since})
		}
	}
	return list
}

// Sessions lists the sessions that this process has admitted by resource and age. A session with
// several claims comes once for each.
func (a *Admission) Sessions() []OpenSession {
	all := a.sessions.list()
	for i, s := range all {
		// The mark's holder has the coordinator's name for it.
		if m, ok := a.seen.get(s.Claim.Resource); ok && m.Token == s.Claim.Token && m.Holder != "" {
			all[i].Claim.Holder = m.Holder
		}
	}
	slices.SortFunc(all, func(a, b OpenSession) int {
		return cmp.Or(cmp.Compare(a.Claim.Resource, b.Claim.Resource), a.Since.Compare(b.Since),
			cmp.Compare(a.Session.ID, b.Session.ID))
	})
	return all
}

// admitted remembers a session until it is released.
func (a *Admission) admitted(ctx context.Context, s Session, claims []Presented) {
	a.sessions.add(s, claims, clientOf(ctx))
}
