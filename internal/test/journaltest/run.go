// Package journaltest runs the contract of journals (package checkpointtest) on the journal in a
// coordinator, and what this journal must do in addition: its fence is the leader's candidate in
// the election, not a mark. The tests of each coordinator call Run and ThroughKills.
package journaltest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/checkpointtest"
	"github.com/ringfence/ringfence/checkpoint/coordinator"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/fence/documents/documentstest"
	"github.com/ringfence/ringfence/internal/test/contract"
	"github.com/ringfence/ringfence/internal/test/must"
)

// Run tests the journal in the coordinators that the fixture opens.
func Run(t *testing.T, f documentstest.Fixture) {
	t.Run("contract", func(t *testing.T) {
		checkpointtest.Run(t, func(t *testing.T) checkpointtest.Fixture {
			p := newStage(t, f)
			return p.contract(p.journal(), p.journal())
		})
	})
	contract.Run(t, clauses, func(t *testing.T) *stage { return newStage(t, f) })
}

// RunLossy runs the contract with journals that lose the reply of each third write. The fixture's
// LoseReply must lose nothing else, such as a connection.
func RunLossy(t *testing.T, f documentstest.Fixture) {
	checkpointtest.Run(t, func(t *testing.T) checkpointtest.Fixture {
		p := newStage(t, f)
		landed := &sync.Map{}
		return p.contract(p.lossy(landed), p.lossy(landed))
	})
}

var made atomic.Int64 // stages, holders and nonces

// stage is a part of a coordinator that nobody else uses, with its own checkpoints and resources.
type stage struct {
	*testing.T
	f       documentstest.Fixture
	dir     string
	elector documents.Coordinator
	terms   map[fence.Resource]*fence.Term
}

func newStage(t *testing.T, f documentstest.Fixture) *stage {
	t.Helper()
	p := &stage{T: t, f: f, terms: map[fence.Resource]*fence.Term{}}
	p.dir = fmt.Sprintf("test/%d-%d/", time.Now().UnixNano(), made.Add(1))
	p.elector = p.open()
	return p
}

// open opens a coordinator, as another process would.
func (p *stage) open() documents.Coordinator {
	p.Helper()
	c := p.f.Open(p.T)
	p.Cleanup(func() { _ = c.Close() })
	return c
}

// in returns the journal of this stage over a client.
func (p *stage) in(c documents.Coordinator) *coordinator.Journal {
	return coordinator.New(inFolder{c.Documents(), p.dir})
}

func (p *stage) journal() *coordinator.Journal { p.Helper(); return p.in(p.open()) }

// documents are those of this stage.
func (p *stage) documents() documents.Store { return inFolder{p.elector.Documents(), p.dir} }

// lead deposes the leader, which does not learn it, and makes another one.
func (p *stage) lead(r fence.Resource) fence.Claim {
	p.Helper()
	p.depose(r)
	ctx, cancel := context.WithTimeout(p.Context(), time.Minute)
	defer cancel()
	term, err := p.elector.Campaign(ctx, r, fmt.Sprint("holder-", made.Add(1)))
	must.Succeed(p, err)
	p.terms[r] = term
	return term.Claim()
}

// depose deposes the leader, if there is one.
func (p *stage) depose(r fence.Resource) {
	p.Helper()
	if old := p.terms[r]; old != nil {
		if gone, err := p.elector.Depose(p.Context(), r, old.Token()); !gone || err != nil {
			p.Fatal(gone, err)
		}
		delete(p.terms, r)
	}
}

// contract returns the fixture of the contract for two journals of this stage. Its resources are
// others on each stage, which share the coordinator's elections.
func (p *stage) contract(j, second checkpoint.Journal) checkpointtest.Fixture {
	return checkpointtest.Fixture{
		Journal: j, Second: second,
		Lead: func(t testing.TB, r fence.Resource) fence.Claim {
			c := p.lead(r)
			must.Succeed(t, j.Raise(t.Context(), c))
			return c
		},
	}
}

// inFolder are documents below a folder.
type inFolder struct {
	documents.Store
	dir string
}

func (s inFolder) Get(ctx context.Context, r documents.Read) ([]documents.Document, error) {
	below := r
	below.Paths = nil
	for _, p := range r.Paths {
		below.Paths = append(below.Paths, s.dir+p)
	}
	all, err := s.Store.Get(ctx, below)
	for i := range all {
		all[i].Path = r.Paths[i]
	}
	return all, err
}

func (s inFolder) Names(ctx context.Context, folder string) ([]string, error) {
	return s.Store.Names(ctx, s.dir+folder)
}

func (s inFolder) Change(ctx context.Context, c documents.Change) ([]int64, error) {
	below := documents.Change{While: c.While}
	for _, w := range c.Writes {
		w.Path = s.dir + w.Path
		below.Writes = append(below.Writes, w)
	}
	return s.Store.Change(ctx, below)
}

func (s inFolder) Watch(
	ctx context.Context, path string, each func(documents.Document) error,
) error {
	return s.Store.Watch(ctx, s.dir+path, func(d documents.Document) error {
		d.Path = path
		return each(d)
	})
}

// lossy is a journal that loses the reply of each third write, and reads back what is unknown, as
// the Runner does.
type lossy struct {
	*coordinator.Journal
	lose   func()
	writes atomic.Int64
	landed *sync.Map // tasks and nonces of what has landed, so that a repeated publish is a conflict
}

func (p *stage) lossy(landed *sync.Map) *lossy {
	c := p.open()
	return &lossy{Journal: p.in(c), lose: func() { p.f.LoseReply(p.T, c) }, landed: landed}
}

func (l *lossy) maybe() {
	if l.writes.Add(1)%3 == 0 {
		l.lose()
	}
}

func (l *lossy) Forget(ctx context.Context, c fence.Claim, task checkpoint.Name) error {
	l.maybe()
	return l.Journal.Forget(ctx, c, task)
}

func (l *lossy) Publish(ctx context.Context, c fence.Claim, cp checkpoint.Checkpoint) error {
	l.maybe()
	err := l.Journal.Publish(ctx, c, cp)
	if err == nil {
		l.landed.Store(string(cp.Task)+cp.Nonce, true)
	}
	if !errors.Is(err, checkpoint.ErrUnknown) || ctx.Err() != nil {
		return err
	}
	got, _, taken := l.TakeOver(ctx, c, cp.Task, -1)
	switch {
	case errors.Is(taken, checkpoint.ErrUnknown), errors.Is(taken, checkpoint.ErrTransient),
		ctx.Err() != nil:
		return err
	case taken != nil: // so was the publish refused, unless it came first
		all, failed := l.Load(ctx, cp.Task)
		if failed != nil {
			return err
		}
		if len(all) == 0 || all[0].Nonce != cp.Nonce {
			return taken
		}
		got = all[0]
	}
	switch {
	case got.Version == cp.Version && got.Nonce == cp.Nonce:
		if _, before := l.landed.LoadOrStore(string(cp.Task)+cp.Nonce, true); before {
			return checkpoint.ErrConflict
		}
		return nil
	case got.Version == cp.Version-1:
		return fmt.Errorf("%w: it has not landed", checkpoint.ErrTransient)
	}
	return checkpoint.ErrConflict
}
