package marks

import (
	"cmp"
	"slices"
	"time"
)

// RelayedSession is a session that this process relays, under one of its claims.
type RelayedSession struct {
	Relayed
	Claim   Presented
	Session Session
	Client  Client
	Since   time.Time // when it was admitted
}

// Sessions lists the sessions that this process relays by resource and age. A session with several
// claims comes once for each.
func (a *Admission) Sessions() []RelayedSession {
	all := a.relayed.list()
	for i, s := range all {
		// The mark's holder has the coordinator's name for it.
		if m, ok := a.seen.get(s.Claim.Resource); ok && m.Token == s.Claim.Token && m.Holder != "" {
			all[i].Claim.Holder = m.Holder
		}
	}
	slices.SortFunc(all, func(a, b RelayedSession) int {
		return cmp.Or(cmp.Compare(a.Claim.Resource, b.Claim.Resource), a.Since.Compare(b.Since),
			cmp.Compare(a.Session.ID, b.Session.ID))
	})
	return all
}

func (r *relayed) list() (all []RelayedSession) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for resource, sessions := range r.all {
		for id, s := range sessions {
			claim := Presented{Resource: resource, Token: s.token, Holder: s.holder}
			all = append(all, RelayedSession{s.Relayed, claim, id, *s.client, s.since})
		}
	}
	return all
}
