package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/checkpointtest"
	"github.com/ringfence/ringfence/checkpoint/taskevent"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/fencetest"
	"github.com/ringfence/ringfence/internal/test/must"
)

// election is a stage that elects its leaders.
type election struct {
	*stage
	// as returns the journal as instances see it.
	as          func(*checkpointtest.Memory) checkpoint.Journal
	stores      []fence.Raiser
	coordinator *fencetest.Memory
	instances   []*instance
}

// instance is one copy of a program that runs the task.
type instance struct {
	*fencetest.Client
	cp     checkpoint.Checkpoint
	answer error
	done   chan struct{} // closed when it has returned
	stop   context.CancelCauseFunc
}

func newElection(t *testing.T) *election {
	plain := func(m *checkpointtest.Memory) checkpoint.Journal { return m }
	return &election{stage: newStage(t), as: plain, coordinator: fencetest.NewMemory(10 * time.Second)}
}

// start starts one more instance.
func (e *election) start(task checkpoint.Task[done]) *instance {
	client := e.coordinator.Open()
	e.Cleanup(func() { _ = client.Close() })
	ctx, stop := context.WithCancelCause(e.Context())
	c := &instance{Client: client, done: make(chan struct{}), stop: stop}
	runs := checkpoint.Runner[done]{
		Lead: fence.Lead{Elector: client, Resource: orders,
			Holder: fmt.Sprint("host-", len(e.instances)), Stores: e.stores},
		Journal: e.as(e.journal), Task: task, Observer: client,
	}
	go func() {
		defer close(c.done)
		c.cp, c.answer = runs.Run(ctx)
	}()
	e.instances = append(e.instances, c)
	return c
}

// slow is a step that takes a second.
func slow(name string) checkpoint.Step[done] {
	return checkpoint.Synchronous(name, func(
		ctx context.Context, tx *checkpointtest.Tx, d done,
	) (done, error) {
		place := fmt.Sprintf("%s at %d", name, len(d.Keys))
		tx.Append(place)
		select {
		case <-time.After(time.Second):
			return done{append(d.Keys, place)}, nil
		case <-ctx.Done():
			return d, context.Cause(ctx)
		}
	})
}

// Ten instances run one task. The coordinator fails them in several ways, and together they finish.
func TestInstancesFinishATaskBetweenThem(t *testing.T) {
	for _, seed := range seeds(t, 5) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 0))
			e := newElection(t)
			task := tasked(slow("a"), slow("b"), slow("c"))
			task.Rounds = 30
			for range 10 {
				e.start(task)
			}
			e.disturb(rnd, 40)
			for i, c := range e.instances {
				<-c.done
				if c.answer != nil || c.cp.Status != checkpoint.Done {
					t.Errorf("RINGFENCE_SEED=%d: instance %d ended with %v, %+v", seed, i, c.answer, c.cp)
				}
			}
			var want []string
			for i := range 90 {
				want = append(want, fmt.Sprintf("%c at %d", "abc"[i%3], i))
			}
			equal(t, fmt.Sprintf("RINGFENCE_SEED=%d: effects", seed), e.effects(), want)
			if tokens := distinct(e.journal.Effects()); tokens < 5 {
				t.Errorf("RINGFENCE_SEED=%d: only %d leaders had effects", seed, tokens)
			}
		})
	}
}

// disturb makes instances fail, so many times in all.
func (e *election) disturb(rnd *rand.Rand, times int) {
	for range times {
		time.Sleep(time.Duration(rnd.Int64N(int64(4 * time.Second))))
		c := e.instances[rnd.IntN(len(e.instances))]
		queue, err := c.leading()
		switch rnd.IntN(4) {
		case 0:
			c.Expire()
		case 1:
			c.Cut()
			time.AfterFunc(time.Duration(rnd.Int64N(int64(20*time.Second))), c.Heal)
		default:
			if err == nil && queue != 0 {
				e.coordinator.Delete(orders, queue)
			}
		}
	}
	for _, c := range e.instances {
		c.Heal()
	}
}

// leading returns the leader's token if this client gets an answer at once.
func (c *instance) leading() (fence.Token, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	queue, err := c.Candidates(ctx, orders)
	if err != nil || len(queue) == 0 {
		return 0, err
	}
	return queue[0].Token, nil
}

func distinct(effects []checkpointtest.Effect) int {
	tokens := make(map[fence.Token]bool)
	for _, e := range effects {
		tokens[e.Token] = true
	}
	return len(tokens)
}

func TestATakeOverIsReportedInItsParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newElection(t)
		task := tasked(slow("a"))
		task.Rounds = 100
		first := e.start(task)
		synctest.Wait()
		var took []taskevent.TakeOver
		task.Notify = func(e checkpoint.Event) {
			if e.Kind == taskevent.TookOver {
				took = append(took, e.TakeOver)
			}
		}
		second := e.start(task)
		time.Sleep(20*time.Second + time.Second/2)
		first.Cut() // the coordinator drops it ten seconds later
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if len(took) != 1 {
			t.Fatalf("the second instance took over %d times", len(took))
		}
		if is := took[0]; is.Detection <= 0 || is.Detection > 11*time.Second || is.Reloaded ||
			is.Election > time.Second || is.Raise > time.Second || is.FirstStep > time.Second {
			t.Errorf("reported %+v", is)
		}
		first.Heal()
		for _, c := range []*instance{first, second} {
			if <-c.done; c.answer != nil || c.cp.Round != 100 {
				t.Errorf("%v, %+v", c.answer, c.cp)
			}
		}
	})
}

// asked records the version that the caller of each TakeOver has.
type asked struct {
	*checkpointtest.Memory
	have []int64
}

func (a *asked) TakeOver(
	ctx context.Context, c fence.Claim, task checkpoint.Name, have int64,
) (checkpoint.Checkpoint, bool, error) {
	a.have = append(a.have, have)
	return a.Memory.TakeOver(ctx, c, task, have)
}

func TestAnInstanceHasTheCheckpointWhenItTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newElection(t)
		task := tasked(slow("a"))
		task.Rounds = 20
		first := e.start(task)
		synctest.Wait()
		second := &asked{Memory: e.journal}
		e.as = func(*checkpointtest.Memory) checkpoint.Journal { return second }
		e.start(task)
		time.Sleep(7*time.Second + time.Second/2)
		first.stop(errBoom)
		<-first.done
		<-e.instances[1].done
		equal(t, "taken with", second.have, []int64{7})
	})
}

func TestRunReturnsErrorsThatRetryingCannotFix(t *testing.T) {
	for name, c := range map[string]struct {
		begin func(e *election) checkpoint.Task[done]
		want  error
	}{
		"a stopped task": {func(e *election) checkpoint.Task[done] {
			return tasked(e.failing("fails", false, 1e9, errBoom))
		}, checkpoint.ErrStopped},
		"a bad task": {func(*election) checkpoint.Task[done] { return tasked() }, checkpoint.ErrBadTask},
		"other steps": {func(e *election) checkpoint.Task[done] {
			e.put(func(*checkpoint.Checkpoint) {})
			return tasked(e.noting("x"))
		}, checkpoint.ErrStepsChanged},
		"another state": {func(e *election) checkpoint.Task[done] {
			e.put(func(cp *checkpoint.Checkpoint) { cp.State = []byte(`[]`) })
			return tasked(e.noting("a"), e.noting("b"))
		}, checkpoint.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newElection(t)
				e.token = 0 // put uses older tokens of the same coordinator
				e.issuer = e.coordinatorsIssuer()
				task := c.begin(e)
				for range 3 {
					e.start(task)
				}
				for _, one := range e.instances {
					<-one.done
					is(t, one.answer, c.want)
				}
			})
		})
	}
}

// coordinatorsIssuer returns the issuer of the elected leaders' tokens.
func (e *election) coordinatorsIssuer() fence.Issuer {
	client := e.coordinator.Open()
	defer client.Close()
	issuer, err := client.Issuer(e.Context())
	must.Succeed(e, err)
	for range 10 { // skip the tokens that put may have used
		term, err := client.Campaign(e.Context(), orders, "before")
		must.Succeed(e, err)
		_ = term.Resign(e.Context())
	}
	return issuer
}

// store is a store that fails the first calls.
type store struct{ fails int }

func (s *store) Raise(context.Context, fence.Claim) error {
	if s.fails--; s.fails >= 0 {
		return errBoom
	}
	return nil
}

func TestAnInstanceCampaignsAgainWhenAStoreIsOutOfReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newElection(t)
		e.stores = []fence.Raiser{&store{20}}
		c := e.start(tasked(slow("a")))
		if <-c.done; c.answer != nil || c.cp.Status != checkpoint.Done {
			t.Errorf("%v, %+v", c.answer, c.cp)
		}
	})
}

func TestAnInstanceCampaignsAgainWhenTheJournalIsOutOfReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newElection(t)
		e.faulty(checkpointtest.Raise, repeated(checkpointtest.OutOfReach, 20)...)
		c := e.start(tasked(slow("a")))
		if <-c.done; c.answer != nil || c.cp.Status != checkpoint.Done {
			t.Errorf("%v, %+v", c.answer, c.cp)
		}
	})
}

func TestAnInstanceEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newElection(t)
		task := tasked(slow("a"))
		task.Rounds = checkpoint.Forever
		leads := e.start(task)
		synctest.Wait()
		waits := e.start(task)
		time.Sleep(10*time.Second + time.Second/2)
		for _, c := range []*instance{waits, leads} {
			c.stop(errBoom)
			<-c.done
			is(t, c.answer, errBoom)
		}
		if e.stored().Version != 10 || leads.cp.Version != 10 ||
			errors.Is(leads.answer, checkpoint.ErrStopped) {
			t.Errorf("stored %+v, the leader knew of %+v", e.stored(), leads.cp)
		}
	})
}

// refusing is a store that refuses every raise with its reason.
type refusing struct {
	reason fence.Reason
	raises int
}

func (r *refusing) Raise(_ context.Context, c fence.Claim) error {
	r.raises++
	return &fence.Refusal{Reason: r.reason, Claim: c}
}

func TestAStaleRaiseEndsTheTermOfRunIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		term, store := s.term(), &refusing{reason: fence.ErrStale}
		r := checkpoint.Runner[done]{Lead: fence.Lead{Stores: []fence.Raiser{store}}, Journal: s.journal,
			Task: tasked(s.noting("load"))}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, err := r.RunIn(ctx, term)
		is(t, err, fence.ErrStale, fence.ErrSuperseded)
		if store.raises != 1 || term.State() != fence.Lost || len(s.diary.read()) > 0 {
			t.Errorf("raised %d times, the term is %v, %v was run", store.raises, term.State(),
				s.diary.read())
		}
	})
}

// failedOver is a journal that has moved to another server.
type failedOver struct {
	checkpoint.Journal
	to *checkpointtest.Memory // nil: not yet
	mu sync.Mutex
}

func (f *failedOver) now() checkpoint.Journal {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.to != nil {
		return f.to
	}
	return f.Journal
}

func (f *failedOver) Raise(ctx context.Context, c fence.Claim) error {
	return f.now().Raise(ctx, c)
}

func (f *failedOver) TakeOver(
	ctx context.Context, c fence.Claim, task checkpoint.Name, have int64,
) (checkpoint.Checkpoint, bool, error) {
	return f.now().TakeOver(ctx, c, task, have)
}

func (f *failedOver) Publish(ctx context.Context, c fence.Claim, cp checkpoint.Checkpoint) error {
	return f.now().Publish(ctx, c, cp)
}

func (f *failedOver) Follow(
	ctx context.Context, task checkpoint.Name, each func(checkpoint.Checkpoint) error,
) error {
	return f.now().Follow(ctx, task, each)
}

// The journal loses version 1 of a leader, and another leader publishes another version 1. The
// first one leads again, and continues from what is stored.
func TestAVersionThatTheJournalHasLostIsNotUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newElection(t)
		j := &failedOver{Journal: e.journal}
		e.as = func(*checkpointtest.Memory) checkpoint.Journal { return j }
		first := e.start(tasked(e.noting("a"), checkpoint.Step[done]{Name: "b",
			Run: func(ctx context.Context, d done, key checkpoint.Key) (done, error) {
				if j.now() == e.journal {
					<-ctx.Done()
					return d, context.Cause(ctx)
				}
				return d.with(key), nil
			}}))
		time.Sleep(time.Second)
		lost := e.stored()
		queue, err := first.leading()
		if err != nil || lost.Version != 1 {
			t.Fatalf("%v, %+v", err, lost)
		}
		other := e.coordinator.Open()
		defer func() { _ = other.Close() }()
		time.AfterFunc(time.Second, func() { e.coordinator.Delete(orders, queue) })
		term, err := other.Campaign(t.Context(), orders, "other")
		must.Succeed(t, err)
		to, stored := checkpointtest.NewMemory(), lost
		stored.Nonce, stored.State = "of the other one", []byte(`{"Keys":["other"]}`)
		if err := errors.Join(to.Raise(t.Context(), term.Claim()),
			to.Publish(t.Context(), term.Claim(), stored)); err != nil {
			t.Fatal(err)
		}
		j.mu.Lock()
		j.to = to
		j.mu.Unlock()
		time.Sleep(5 * time.Second)
		must.Succeed(t, term.Resign(t.Context()))
		<-first.done
		if got, want := string(first.cp.State),
			`{"Keys":["other","nightly/1/1/b"]}`; first.answer != nil || got != want {
			t.Errorf("%v, ended with %s, want %s", first.answer, got, want)
		}
	})
}
