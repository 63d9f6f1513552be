package postgres

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/ringfence/ringfence/internal/guard"
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

// list returns a row for each, by database and age.
func (all *readers) list() (rows []guard.Session) {
	all.mu.Lock()
	for r, who := range all.all {
		rows = append(rows, guard.Session{
			Location: guard.Location{Database: who.database}, ID: int64(who.pid), Client: who.client,
			Since: who.since, State: "read-only, " + r.State(),
		})
	}
	all.mu.Unlock()
	slices.SortFunc(rows, func(a, b guard.Session) int {
		return cmp.Or(cmp.Compare(a.Database, b.Database), a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID))
	})
	return rows
}
