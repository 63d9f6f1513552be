package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/checkpointtest"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/fencetest"
)

// ballot is a stage whose leaders are elected.
type ballot struct {
	*stage
	// what the candidates see of the journal
	as          func(*checkpointtest.Memory) checkpoint.Journal
	stores      []fence.Raiser
	coordinator *fencetest.Memory
	candidates  []*candidate
}

// candidate is one copy of the program.
type candidate struct {
	*fencetest.Client
	cp     checkpoint.Checkpoint
	answer error
	done   chan struct{} // closed when it has returned
	stop   context.CancelCauseFunc
}

func newBallot(t *testing.T) *ballot {
	plain := func(m *checkpointtest.Memory) checkpoint.Journal { return m }
	return &ballot{stage: newStage(t), as: plain, coordinator: fencetest.NewMemory(10 * time.Second)}
}

// stand starts one more candidate.
func (b *ballot) stand(task checkpoint.Task[done]) *candidate {
	client := b.coordinator.Open()
	b.Cleanup(func() { _ = client.Close() })
	ctx, stop := context.WithCancelCause(b.Context())
	c := &candidate{Client: client, done: make(chan struct{}), stop: stop}
	runs := checkpoint.Candidate[done]{
		Lead: fence.Lead{Elector: client, Resource: orders,
			Holder: fmt.Sprint("host-", len(b.candidates)), Stores: b.stores},
		Journal: b.as(b.journal), Task: task, Observer: client,
	}
	go func() {
		defer close(c.done)
		c.cp, c.answer = runs.Run(ctx)
	}()
	b.candidates = append(b.candidates, c)
	return c
}

// slow is a step that takes a second.
func slow(name string) checkpoint.Step[done] {
	return checkpoint.Synchronous(name, func(ctx context.Context, tx *checkpointtest.Tx,
		d done) (done, error) {
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

// Ten hot copies of one task, whose coordinator fails them one way or another, finish it between
// them.
func TestCandidatesFinishATaskBetweenThem(t *testing.T) {
	for _, seed := range seeds(t, 5) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 0))
			b := newBallot(t)
			task := tasked(slow("a"), slow("b"), slow("c"))
			task.Rounds = 30
			for range 10 {
				b.stand(task)
			}
			b.disturb(rnd, 40)
			for i, c := range b.candidates {
				<-c.done
				if c.answer != nil || c.cp.Status != checkpoint.Done {
					t.Errorf("RINGFENCE_SEED=%d: candidate %d ended with %v, %+v", seed, i, c.answer, c.cp)
				}
			}
			var want []string
			for i := range 90 {
				want = append(want, fmt.Sprintf("%c at %d", "abc"[i%3], i))
			}
			equal(t, fmt.Sprintf("RINGFENCE_SEED=%d: effects", seed), b.effects(), want)
			if tokens := distinct(b.journal.Effects()); tokens < 5 {
				t.Errorf("RINGFENCE_SEED=%d: only %d leaders had effects", seed, tokens)
			}
		})
	}
}

// disturb fails the candidates so many times.
func (b *ballot) disturb(rnd *rand.Rand, times int) {
	for range times {
		time.Sleep(time.Duration(rnd.Int64N(int64(4 * time.Second))))
		c := b.candidates[rnd.IntN(len(b.candidates))]
		queue, err := c.leading()
		switch rnd.IntN(4) {
		case 0:
			c.Expire()
		case 1:
			c.Cut()
			time.AfterFunc(time.Duration(rnd.Int64N(int64(20*time.Second))), c.Heal)
		default:
			if err == nil && queue != 0 {
				b.coordinator.Delete(orders, queue)
			}
		}
	}
	for _, c := range b.candidates {
		c.Heal()
	}
}

// leading is the token that leads, if this client can tell at once.
func (c *candidate) leading() (fence.Token, error) {
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
		b := newBallot(t)
		task := tasked(slow("a"))
		task.Rounds = 100
		first := b.stand(task)
		synctest.Wait()
		var took []checkpoint.TakeOver
		task.Notify = func(e checkpoint.Event) {
			if e.Kind == checkpoint.TookOver {
				took = append(took, e.TakeOver)
			}
		}
		second := b.stand(task)
		time.Sleep(20*time.Second + time.Second/2)
		first.Cut() // and the coordinator drops it ten seconds later
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if len(took) != 1 {
			t.Fatalf("the second candidate took over %d times", len(took))
		}
		if is := took[0]; is.Detection <= 0 || is.Detection > 11*time.Second || is.Reloaded ||
			is.Election > time.Second || is.Raise > time.Second || is.FirstStep > time.Second {
			t.Errorf("reported %+v", is)
		}
		first.Heal()
		for _, c := range []*candidate{first, second} {
			if <-c.done; c.answer != nil || c.cp.Round != 100 {
				t.Errorf("%v, %+v", c.answer, c.cp)
			}
		}
	})
}

// asked notes which version each Take says it has.
type asked struct {
	*checkpointtest.Memory
	have []int64
}

func (a *asked) Take(
	ctx context.Context, c fence.Claim, task checkpoint.Name, have int64,
) (checkpoint.Checkpoint, bool, error) {
	a.have = append(a.have, have)
	return a.Memory.Take(ctx, c, task, have)
}

func TestACandidateHasTheCheckpointWhenItTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBallot(t)
		task := tasked(slow("a"))
		task.Rounds = 20
		first := b.stand(task)
		synctest.Wait()
		second := &asked{Memory: b.journal}
		b.as = func(*checkpointtest.Memory) checkpoint.Journal { return second }
		b.stand(task)
		time.Sleep(7*time.Second + time.Second/2)
		first.stop(errBoom)
		<-first.done
		<-b.candidates[1].done
		equal(t, "taken with", second.have, []int64{7})
	})
}

func TestACandidateEndsWithWhatDoesNotGoAway(t *testing.T) {
	for name, c := range map[string]struct {
		begin func(b *ballot) checkpoint.Task[done]
		want  error
	}{
		"a stopped task": {func(b *ballot) checkpoint.Task[done] {
			return tasked(b.failing("fails", false, 1e9, errBoom))
		}, checkpoint.ErrStopped},
		"a bad task": {func(*ballot) checkpoint.Task[done] { return tasked() }, checkpoint.ErrBadTask},
		"other steps": {func(b *ballot) checkpoint.Task[done] {
			b.put(func(*checkpoint.Checkpoint) {})
			return tasked(b.noting("x"))
		}, checkpoint.ErrStepsChanged},
		"another state": {func(b *ballot) checkpoint.Task[done] {
			b.put(func(cp *checkpoint.Checkpoint) { cp.State = []byte(`[]`) })
			return tasked(b.noting("a"), b.noting("b"))
		}, checkpoint.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBallot(t)
				b.token = 0 // tokens of the same coordinator, and older
				b.issuer = b.coordinatorsIssuer()
				task := c.begin(b)
				for range 3 {
					b.stand(task)
				}
				for _, one := range b.candidates {
					<-one.done
					is(t, one.answer, c.want)
				}
			})
		})
	}
}

// coordinatorsIssuer is whose tokens the elected have.
func (b *ballot) coordinatorsIssuer() fence.Issuer {
	client := b.coordinator.Open()
	defer client.Close()
	issuer, err := client.Issuer(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	for range 10 { // tokens that put may have used
		term, err := client.Campaign(b.Context(), orders, "before")
		if err != nil {
			b.Fatal(err)
		}
		_ = term.Resign(b.Context())
	}
	return issuer
}

// store is another store of the leaders', out of reach for so many times.
type store struct{ fails int }

func (s *store) Raise(context.Context, fence.Claim) error {
	if s.fails--; s.fails >= 0 {
		return errBoom
	}
	return nil
}

func TestACandidateStandsAgainWhenAStoreIsOutOfReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBallot(t)
		b.stores = []fence.Raiser{&store{20}}
		c := b.stand(tasked(slow("a")))
		if <-c.done; c.answer != nil || c.cp.Status != checkpoint.Done {
			t.Errorf("%v, %+v", c.answer, c.cp)
		}
	})
}

func TestACandidateStandsAgainWhenTheJournalIsOutOfReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBallot(t)
		b.faulty(checkpointtest.Raise, repeated(checkpointtest.OutOfReach, 20)...)
		c := b.stand(tasked(slow("a")))
		if <-c.done; c.answer != nil || c.cp.Status != checkpoint.Done {
			t.Errorf("%v, %+v", c.answer, c.cp)
		}
	})
}

func TestACandidateEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBallot(t)
		task := tasked(slow("a"))
		task.Rounds = checkpoint.Forever
		leads := b.stand(task)
		synctest.Wait()
		waits := b.stand(task)
		time.Sleep(10*time.Second + time.Second/2)
		for _, c := range []*candidate{waits, leads} {
			c.stop(errBoom)
			<-c.done
			is(t, c.answer, errBoom)
		}
		if b.stored().Version != 10 || leads.cp.Version != 10 ||
			errors.Is(leads.answer, checkpoint.ErrStopped) {
			t.Errorf("stored %+v, the leader knew of %+v", b.stored(), leads.cp)
		}
	})
}
