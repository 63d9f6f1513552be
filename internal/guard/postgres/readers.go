package postgres

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/ringfence/ringfence/internal/guard/postgres/readonly"
	"github.com/ringfence/ringfence/internal/marks"
)

// readers are the sessions without a token, for the console.
type readers struct {
	mu  sync.Mutex
	all map[*readonly.Session]reader
}

// reader is who has a session without a token.
type reader struct {
	database string
	pid      uint32
	client   marks.Client
	since    time.Time
}

// add lists a session until remove is called.
func (all *readers) add(r *readonly.Session, who reader) (remove func()) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.all == nil {
		all.all = make(map[*readonly.Session]reader)
	}
	all.all[r] = who
	return func() {
		all.mu.Lock()
		defer all.mu.Unlock()
		delete(all.all, r)
	}
}

// rows returns a row of SHOW SESSIONS for each, by database and age.
func (all *readers) rows() (rows [][]any) {
	type listed struct {
		reader
		state string
	}
	var list []listed
	all.mu.Lock()
	for r, who := range all.all {
		list = append(list, listed{who, r.State()})
	}
	all.mu.Unlock()
	slices.SortFunc(list, func(a, b listed) int {
		return cmp.Or(cmp.Compare(a.database, b.database), a.since.Compare(b.since), cmp.Compare(a.pid, b.pid))
	})
	for _, l := range list {
		rows = append(rows, []any{
			l.database, nil, nil, nil, int64(l.pid), l.client.Address, l.client.User, l.client.Application, l.since,
			"read-only, " + l.state,
		})
	}
	return rows
}
