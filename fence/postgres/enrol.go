package postgres

import (
	"context"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
)

// Enrol implements campaign.Candidate: it makes the row.
func (e *candidate) Enrol(ctx context.Context) (fence.Token, error) {
	done, err := e.s.c.enrolling.turn(ctx, e.Resource)
	if err != nil {
		return 0, err
	}
	defer done()
	if cause := e.s.Ended(); cause != nil {
		return 0, cause
	}
	return ask(ctx, e.s.c, "enrol in the election of "+string(e.Resource),
		func(ctx context.Context, conn *pgx.Conn) (token fence.Token, err error) {
			var leads bool
			var issuer string
			err = unheld(ctx, conn, []string{string(e.Resource)}, func() error {
				return row(ctx, conn, []any{&token, &leads, &issuer}, "nominate($1, $2, $3, $4)",
					e.s.id, e.Key, string(e.Resource), e.Holder)
			})
			switch {
			case err == nil && token == 0:
				err = errOver
			case err == nil && leads:
				e.lead(fence.Issuer(issuer))
			}
			if err == nil && (leads || strings.HasPrefix(string(e.Resource), groups)) {
				e.s.c.teller.tell(notice{electionChannel + string(e.Resource), ""})
			}
			return token, err
		})
}

// groups begins the elections of groups (package group), of which every candidate matters at once,
// not only the one that leads. In others, a candidate that has to wait sends no notice: it would
// wake every connection that listens in the database, and a crowd of them would keep the server
// busy until sessions expired.
const groups = "members_"

// turns lets the enrolments of a process in one election go one after another. At the server they
// would wait for each other as well: each on a connection that other calls need, and in a longer
// queue for the election's row.
type turns struct {
	mu    sync.Mutex
	queue map[fence.Resource]*queue
}

type queue struct {
	turn chan struct{} // full while somebody has the turn
	in   int           // who has the turn, and who waits; the mutex of turns guards it
}

// turn waits for the turn in an election. Call done to pass it on.
func (t *turns) turn(ctx context.Context, r fence.Resource) (done func(), err error) {
	t.mu.Lock()
	q := t.queue[r]
	if q == nil {
		q = &queue{turn: make(chan struct{}, 1)}
		t.queue[r] = q
	}
	q.in++
	t.mu.Unlock()
	forget := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if q.in--; q.in == 0 {
			delete(t.queue, r)
		}
	}
	select {
	case q.turn <- struct{}{}:
		return func() { <-q.turn; forget() }, nil
	case <-ctx.Done():
		forget()
		return nil, context.Cause(ctx)
	}
}
