package jobstest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/fence/fencetest"
	"github.com/ringfence/ringfence/internal/test/contract"
	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/jobs/job"
)

// In a bubble, what a clause waits for in vain takes no time.
func TestTheContractFindsFlaws(t *testing.T) {
	for i := range flaws {
		fl := &flaws[i]
		t.Run(fl.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				contract.Flaw[*stage]{
					Clause: fl.clause, Says: fl.says,
					Open: func(t testing.TB) *stage { return newStage(t, fl.on()) },
				}.Found(t, clauses)
			})
		})
	}
}

// The wrapper itself must be right, or it would be found for the wrong reason.
func TestAnImplementationWithoutAFlawPassesEveryClause(t *testing.T) {
	for _, c := range clauses {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.Holds(newStage(t, new(flaw).on())) })
		})
	}
}

// A bubble makes many random histories cheap.
func TestManyRandomHistories(t *testing.T) {
	for i := range 100 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { randomHistory(newStage(t, new(flaw).on())) })
		})
	}
}

// Names of entries have the time in milliseconds, statuses have it more exactly. In a bubble,
// timers are exact, too.
func TestAJobStartsWhenItIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, new(flaw).on())
		s.works(jobs.Worker{Handlers: kinds(echo)})
		s.ends(s.submit(job.Spec{}), job.Done)
		due := time.Now().Add(100*time.Millisecond + 300*time.Microsecond)
		end := s.ends(s.submit(job.Spec{NotBefore: due}), job.Done)
		if late := end.Started.Sub(due); late > time.Millisecond || late < -time.Millisecond {
			t.Errorf("it was due at %v and has started at %v", due, end.Started)
		}
	})
}

// A worker to which no store answers keeps no job for itself.
func TestAJobThatCannotBeginGoesToAnother(t *testing.T) {
	for name, broken := range map[string]brokenStore{
		"the store answers with an error": func(context.Context) error {
			return errors.New("no such luck")
		},
		"the store is silent": func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := new(flaw).on()
				f.patience = 3 * time.Minute
				s := newStage(t, f)
				s.works(jobs.Worker{Name: "first", Stores: []fence.Raiser{broken}, Handlers: kinds(echo)})
				id := s.submit(job.Spec{Payload: number(1)})
				back := s.becomes(id, "given back", func(now job.Status) bool { return now.ReturnedBy != 0 })
				if !strings.Contains(back.Error, "(first) could not begin") || back.Failures != 0 ||
					back.Lost != 0 {
					t.Errorf("%+v", back)
				}
				s.works(jobs.Worker{Name: "second", Handlers: kinds(echo)})
				if end := s.ends(id, job.Done); end.WorkerName != "second" || end.Error != "" {
					t.Errorf("%+v", end)
				}
			})
		})
	}
}

// brokenStore is a store that raises no mark.
type brokenStore func(context.Context) error

// Raise implements fence.Raiser.
func (b brokenStore) Raise(ctx context.Context, _ fence.Claim) error { return b(ctx) }

// on returns a fixture in memory whose clients have the flaw.
func (fl *flaw) on() Fixture {
	m := fencetest.NewMemory(10 * time.Second)
	w := &world{seen: map[string]fence.Token{}, aliases: map[fence.Token]fence.Resource{}}
	of := func(c documents.Coordinator) *fencetest.Client { return c.(*flawed).client }
	return Fixture{
		patience: 20 * time.Second,
		Open: func(testing.TB) documents.Coordinator {
			client := m.Open()
			return &flawed{Coordinator: client, client: client, flaw: fl, world: w}
		},
		Expire: func(_ testing.TB, c documents.Coordinator) { of(c).Expire() },
		Kill: func(t testing.TB, c documents.Coordinator) {
			of(c).Cut()
			of(c).Expire()
			t.Cleanup(of(c).Heal)
		},
	}
}

// flawed is a coordinator that is wrong on purpose. It stands in front of a right one.
type flawed struct {
	documents.Coordinator
	client *fencetest.Client
	flaw   *flaw
	world  *world
	terms  sync.WaitGroup
}

// world is what the clients of one coordinator share.
type world struct {
	mu      sync.Mutex
	count   int
	seen    map[string]fence.Token // the first token of each name
	ever    []elector.Candidate
	aliases map[fence.Token]fence.Resource // in whose election a term was won, really
}

// next counts.
func (w *world) next() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count++
	return w.count
}

// Documents implements documents.Coordinator.
func (f *flawed) Documents() documents.Store { return &flawedStore{f.client.Documents(), f} }

// Close implements elector.Coordinator.
func (f *flawed) Close() error {
	err := f.Coordinator.Close()
	f.terms.Wait()
	return err
}

// Campaign implements elector.Coordinator.
func (f *flawed) Campaign(
	ctx context.Context, r fence.Resource, holder string,
) (*fence.Term, error) {
	if f.flaw.campaign != nil {
		return f.flaw.campaign(f, ctx, r, holder)
	}
	return f.Coordinator.Campaign(ctx, r, holder)
}

// Candidates implements elector.Coordinator.
func (f *flawed) Candidates(ctx context.Context, r fence.Resource) ([]elector.Candidate, error) {
	all, err := f.Coordinator.Candidates(ctx, r)
	if f.flaw.members != nil && strings.HasPrefix(string(r), "members_") {
		all = f.flaw.members(f.world, slices.Clone(all))
	}
	return all, err
}

// Watch implements elector.Coordinator.
func (f *flawed) Watch(
	ctx context.Context, r fence.Resource, each func([]elector.Candidate) error,
) error {
	return f.Coordinator.Watch(ctx, r, func(all []elector.Candidate) error {
		if f.flaw.members != nil && strings.HasPrefix(string(r), "members_") {
			all = f.flaw.members(f.world, slices.Clone(all))
		}
		return each(all)
	})
}

// flawedStore is the documents of a flawed coordinator.
type flawedStore struct {
	documents.Store
	f *flawed
}

// Change implements documents.Store.
func (s *flawedStore) Change(ctx context.Context, c documents.Change) ([]int64, error) {
	c.While = slices.Clone(c.While)
	s.f.world.mu.Lock()
	for i, claim := range c.While {
		if alias, has := s.f.world.aliases[claim.Token]; has {
			c.While[i].Resource = alias
		}
	}
	s.f.world.mu.Unlock()
	if s.f.flaw.change != nil {
		return s.f.flaw.change(s, ctx, c)
	}
	return s.Store.Change(ctx, c)
}

// Names implements documents.Store.
func (s *flawedStore) Names(ctx context.Context, folder string) ([]string, error) {
	names, err := s.Store.Names(ctx, folder)
	if s.f.flaw.names != nil {
		names = s.f.flaw.names(s.f.world, folder, names)
	}
	return names, err
}

// WatchNames implements documents.Store.
func (s *flawedStore) WatchNames(
	ctx context.Context, folder string, each func([]string) error,
) error {
	if s.f.flaw.watchNames != nil {
		each = s.f.flaw.watchNames(ctx, folder, each)
	}
	return s.Store.WatchNames(ctx, folder, each)
}

// Watch implements documents.Store.
func (s *flawedStore) Watch(
	ctx context.Context, at string, each func(documents.Document) error,
) error {
	if s.f.flaw.watch != nil {
		each = s.f.flaw.watch(each)
	}
	return s.Store.Watch(ctx, at, each)
}

// winAtOnce wins a term of a resource without an election.
func (f *flawed) winAtOnce(
	ctx context.Context, r fence.Resource, holder string,
) (*fence.Term, error) {
	alias := fence.Resource(fmt.Sprintf("%s_%d", r, f.world.next()))
	right, err := f.Coordinator.Campaign(ctx, alias, holder)
	if err != nil {
		return nil, err
	}
	claim := right.Claim()
	claim.Resource = r
	f.world.mu.Lock()
	f.world.aliases[claim.Token] = alias
	f.world.mu.Unlock()
	term, keeper := elector.NewTerm(claim, time.Now(), time.Hour, backing{right})
	f.terms.Go(func() {
		<-right.Context().Done()
		keeper.Lose(context.Cause(right.Context()))
	})
	return term, nil
}

// backing lets a term be acknowledged and resigned in place of another one.
type backing struct{ right *fence.Term }

// Acknowledge implements elector.Backing.
func (b backing) Acknowledge(ctx context.Context) error { return b.right.Acknowledge(ctx) }

// Release implements elector.Backing.
func (b backing) Release(ctx context.Context) error { return b.right.Resign(ctx) }
