package documentstest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/internal/test/contract"
)

// flawPatience is how long a flawed store may take.
const flawPatience = 10 * time.Second

// RunFlaws makes the store wrong in many ways, one at a time, and checks that the contract finds
// each flaw, and that each clause finds one. The flaws are wrappers around the clients that the
// fixture opens, so this also shows that the fixture's faults are real.
func RunFlaws(t *testing.T, f Fixture) {
	f.patience = flawPatience
	var all []contract.Flaw[*stage]
	var finding []string
	for i := range flaws {
		fl := &flaws[i]
		all = append(all, contract.Flaw[*stage]{
			Name: fl.name, Clause: fl.clause, Says: fl.says,
			Open: func(t testing.TB) *stage { return newStage(t, fl.on(f)) },
		})
		finding = append(finding, fl.clause)
	}
	contract.EachFinds(t, clauses, finding)
	contract.RunFlaws(t, clauses, all)
}

// on returns a fixture for a store that has the flaw.
func (fl *flaw) on(right Fixture) Fixture {
	wrong := right
	wrap := func(c documents.Coordinator) *flawedCoordinator {
		return &flawedCoordinator{c, &flawed{
			Store: c.Documents(), flaw: fl, at: c, seen: map[string]documents.Document{},
		}}
	}
	wrong.Open = func(t testing.TB) documents.Coordinator {
		c := wrap(right.Open(t))
		if fl.asks {
			c.store.other = open(t, right)
		}
		return c
	}
	wrong.Alone = func(t testing.TB) (c, operator documents.Coordinator) {
		c, operator = right.Alone(t)
		return wrap(c), operator
	}
	fault := func(
		does func(testing.TB, documents.Coordinator), note func(*flawed),
	) func(testing.TB, documents.Coordinator) {
		if does == nil {
			return nil
		}
		return func(t testing.TB, c documents.Coordinator) {
			f := c.(*flawedCoordinator)
			f.store.set(note)
			does(t, f.Coordinator)
		}
	}
	wrong.Cut = fault(right.Cut, func(f *flawed) { f.cut = true })
	wrong.Heal = fault(right.Heal, func(*flawed) {})
	wrong.LoseReply = fault(right.LoseReply, func(*flawed) {})
	if right.Hold != nil {
		wrong.Hold = func(t testing.TB, c documents.Coordinator) (held, release func()) {
			return right.Hold(t, c.(*flawedCoordinator).Coordinator)
		}
	}
	return wrong
}

// flawedCoordinator is a coordinator whose documents are flawed.
type flawedCoordinator struct {
	documents.Coordinator
	store *flawed
}

// Documents implements documents.Coordinator.
func (c *flawedCoordinator) Documents() documents.Store { return c.store }

// Close implements elector.Coordinator.
func (c *flawedCoordinator) Close() error {
	c.store.set(func(f *flawed) { f.closed = true })
	return c.Coordinator.Close()
}

// flawed is a store that is wrong on purpose. It stands in front of a right one.
type flawed struct {
	documents.Store
	flaw  *flaw
	at    documents.Coordinator
	other documents.Coordinator // another client, for the flaw's own use

	mu     sync.Mutex
	closed bool
	cut    bool // it was, once
	seen   map[string]documents.Document
	led    []fence.Claim
}

func (f *flawed) set(note func(*flawed)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	note(f)
}

// Change implements documents.Store.
func (f *flawed) Change(ctx context.Context, c documents.Change) ([]int64, error) {
	if f.flaw.change != nil {
		return f.flaw.change(f, ctx, c)
	}
	return f.Store.Change(ctx, c)
}

// Get implements documents.Store.
func (f *flawed) Get(ctx context.Context, r documents.Read) ([]documents.Document, error) {
	if f.flaw.read != nil {
		return f.flaw.read(f, ctx, r)
	}
	all, err := f.Store.Get(ctx, r)
	if f.flaw.get != nil {
		return f.flaw.get(f, r.Paths, all, err)
	}
	return all, err
}

// Names implements documents.Store.
func (f *flawed) Names(ctx context.Context, folder string) ([]string, error) {
	names, err := f.Store.Names(ctx, folder)
	if f.flaw.names != nil && err == nil {
		return f.flaw.names(f, ctx, folder, names)
	}
	return names, err
}

// WatchNames implements documents.Store.
func (f *flawed) WatchNames(
	ctx context.Context, folder string, each func([]string) error,
) error {
	if f.flaw.watchNames != nil {
		each = f.flaw.watchNames(f, each)
	}
	err := f.Store.WatchNames(ctx, folder, each)
	if f.flaw.watched != nil {
		err = f.flaw.watched(err)
	}
	return err
}

// Watch implements documents.Store.
func (f *flawed) Watch(
	ctx context.Context, path string, each func(documents.Document) error,
) error {
	if f.flaw.watch != nil {
		each = f.flaw.watch(f, each)
	}
	return f.Store.Watch(ctx, path, each)
}
