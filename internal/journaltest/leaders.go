package journaltest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
)

const (
	Orders  fence.Resource  = "orders"
	Nightly checkpoint.Name = "nightly"
)

var made atomic.Int64 // holders and nonces

// Leaders makes and deposes leaders.
type Leaders struct {
	Elector fence.Coordinator

	t     *testing.T
	terms map[fence.Resource]*fence.Term
}

// NewLeaders returns Leaders whose terms the elector wins.
func NewLeaders(t *testing.T, elector fence.Coordinator) *Leaders {
	return &Leaders{Elector: elector, t: t, terms: map[fence.Resource]*fence.Term{}}
}

// Lead deposes the leader, which does not learn it, and makes another one.
func (l *Leaders) Lead(r fence.Resource) fence.Claim {
	l.t.Helper()
	l.Depose(r)
	ctx, cancel := context.WithTimeout(l.t.Context(), time.Minute)
	defer cancel()
	term, err := l.Elector.Campaign(ctx, r, fmt.Sprint("holder-", made.Add(1)))
	if err != nil {
		l.t.Fatal(err)
	}
	l.terms[r] = term
	return term.Claim()
}

// Depose deposes the leader, if there is one.
func (l *Leaders) Depose(r fence.Resource) {
	l.t.Helper()
	if old := l.terms[r]; old != nil {
		if gone, err := l.Elector.Depose(l.t.Context(), r, old.Token()); !gone || err != nil {
			l.t.Fatal(gone, err)
		}
		delete(l.terms, r)
	}
}
