package marks

import (
	"context"
	"slices"
	"time"

	"github.com/ringfence/ringfence/internal/network/backoff"
)

// releaseTime bounds Release.
const releaseTime = 5 * time.Second

// Release has the store forget a session whose connection is closed, whatever became of ctx. A
// record that stays is found by the next revocation. A session that was let go is ended in the
// database, if the end of its connection has not arrived there.
//
// Sessions that end at the same time are released together, so they never keep more than one of
// the store's connections busy. If every mark is known to have been raised above the session's
// claims, and it was not let go, Release does nothing: the revocation for the higher mark looks for
// the session itself, and nobody is admitted before it has removed the record.
func (a *Admission) Release(ctx context.Context, s SessionID, claims []Presented) {
	d := departed(s, claims)
	there, letGo := a.sessions.remove(d)
	if there {
		for _, c := range claims {
			a.notify(ctx, Event{Kind: Closed, Claim: c.Under(""), Session: s})
		}
	}
	revoked := true
	for _, c := range claims {
		revoked = revoked && a.overtaken(c) != nil
	}
	if revoked && !letGo {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
	defer cancel()
	for n := 1; ; n++ {
		leaving, err := a.releases.do(ctx, d, a.releaseAll)
		if err != nil || !slices.Contains(leaving, s) {
			return
		}
		backoff.Pause(ctx, backoff.After(n, backoff.Min, time.Second))
		d.Overdue = true
	}
}

// LetGo lets a session go that has run the statement of a Proof, if the store agrees that it is at
// rest, and reports whether it does. The caller then closes the session's connection, and calls
// Release. It may be repeated, because the session may need a moment.
func (a *Admission) LetGo(
	ctx context.Context, s SessionID, claims []Presented, statement string,
) bool {
	d := departed(s, claims)
	d.Proof = statement
	leaving, err := a.releases.do(ctx, d, a.releaseAll)
	return err == nil && slices.Contains(leaving, s)
}

func (a *Admission) releaseAll(ctx context.Context, all []Departed) ([]SessionID, error) {
	return a.Store.Release(ctx, all...)
}
