package checkpointtest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/test/contract"
)

var randomClauses = []contract.Clause[*stage]{
	{Name: "Leaders that take, publish and forget at random get the answers of the model",
		Holds: randomInterleaving},
}

// random returns a source seeded with RINGFENCE_SEED, or with the time.
func (k *stage) random() *rand.Rand {
	seed, err := strconv.ParseUint(os.Getenv("RINGFENCE_SEED"), 10, 64)
	if err != nil {
		seed = uint64(time.Now().UnixNano())
	}
	k.Logf("to repeat this run: RINGFENCE_SEED=%d go test -run '^%s$'", seed, k.Name())
	return rand.New(rand.NewPCG(seed, 0))
}

// world is a random run. It makes every call to the journal and to the model.
type world struct {
	*stage
	rnd    *rand.Rand
	model  *Memory
	claims []fence.Claim // of all leaders so far, and some that never led
	// freed has the resources of forgotten tasks. Their names stay with them: a journal need not
	// notice that a term forgets a task and goes on with it while another resource has begun it.
	freed map[checkpoint.Name]fence.Resource
	moves int
}

func newWorld(k *stage) *world {
	w := &world{stage: k, rnd: k.random(), model: NewMemory(),
		freed: map[checkpoint.Name]fence.Resource{}}
	w.newLeader()
	return w
}

func randomInterleaving(k *stage) {
	w := newWorld(k)
	for w.moves = range 300 {
		switch n := w.rnd.IntN(100); {
		case n < 4:
			w.newLeader()
		case n < 8:
			w.impostor()
		case n < 12:
			w.forgetOne()
		case n < 70:
			w.publishOne()
		default:
			w.takeOne()
		}
	}
	w.sameInTheEnd()
}

// sameInTheEnd compares everything that is stored.
func (w *world) sameInTheEnd() {
	w.Helper()
	want, _ := w.model.Load(w.ctx)
	got := w.load(w.Second)
	w.listed(got, names(want)...)
	for i := range want {
		w.equal(got[i], want[i])
	}
}

func pick[T any](rnd *rand.Rand, from ...T) T { return from[rnd.IntN(len(from))] }

func (w *world) newLeader() {
	c := w.lead(pick(w.rnd, orders, orders, stock))
	if err := w.model.Raise(w.ctx, c); err != nil {
		w.Fatalf("the fixture led %s, which the model refuses: %v", c, err)
	}
	w.claims = append(w.claims, c)
}

// impostor adds a claim of another issuer, or one to which the mark was never raised.
func (w *world) impostor() {
	c := w.claim()
	if w.rnd.IntN(2) == 0 {
		c.Issuer += "-rebuilt"
	} else {
		c.Token += 1 << 40
	}
	w.claims = append(w.claims, c)
}

// claim returns the newest claim half of the time, and most often a recent one.
func (w *world) claim() fence.Claim {
	newest := len(w.claims) - 1
	return w.claims[pick(w.rnd, newest, newest, max(newest-1, 0), w.rnd.IntN(len(w.claims)))]
}

// move chooses the journal, the claim and the task of a call, and returns the stored version.
func (w *world) move() (checkpoint.Journal, fence.Claim, checkpoint.Name, int64) {
	task := pick(w.rnd, nightly, hourly, "third")
	stored, _ := w.model.Load(w.ctx, task)
	var at int64
	if len(stored) > 0 {
		at = stored[0].Version
	}
	c := w.claim()
	for owner, freed := w.freed[task]; freed && c.Resource != owner; {
		c = w.claim()
	}
	return pick(w.rnd, w.Journal, w.Second), c, task, at
}

func (w *world) forgetOne() {
	j, c, task, at := w.move()
	err := w.tryForget(j, c, task)
	w.agree(err, w.model.Forget(w.ctx, c, task), "forget %s, at version %d, under %s", task, at, c)
	if err == nil {
		w.freed[task] = c.Resource
	}
}

func (w *world) publishOne() {
	j, c, task, at := w.move()
	cp := version(max(at+pick[int64](w.rnd, 1, 1, 1, 1, 0, 2, -1), 1), c, task,
		fmt.Sprint("move ", w.moves))
	w.agree(w.try(j, c, cp), w.model.Publish(w.ctx, c, cp),
		"publish version %d over %d of %s under %s", cp.Version, at, task, c)
}

func (w *world) takeOne() {
	j, c, task, at := w.move()
	have := max(at+pick[int64](w.rnd, 0, 0, -1, 1, -1000), -1)
	got, same, err := w.tryTake(j, c, task, have)
	want, wantSame, wantErr := w.model.TakeOver(w.ctx, c, task, have)
	w.agree(err, wantErr, "take %s under %s, having %d of %d", task, c, have, at)
	if err != nil || at == 0 {
		return
	}
	if same != wantSame {
		w.Fatalf("move %d: take %s, having %d of %d: same is %v", w.moves, task, have, at, same)
	}
	if !same {
		w.equal(got, want)
	}
}

// agree fails the test unless journal and model gave the same answer. A claim that never led may be
// refused for any reason.
func (w *world) agree(err, model error, format string, args ...any) {
	w.Helper()
	got, want := verdict(err), verdict(model)
	switch want {
	case fence.ErrNotRaised, fence.ErrOtherIssuer:
		w.refused(err, nil)
	default:
		if got != want {
			w.Fatalf("move %d: %s: got %v, the model says %v", w.moves,
				fmt.Sprintf(format, args...), err, model)
		}
	}
}
