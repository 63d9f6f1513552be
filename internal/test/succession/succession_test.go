package succession

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
)

func init() {
	journals = map[string]struct {
		open  func(context.Context, job) (*opened, error)
		world func(*testing.T) *world
	}{
		"postgres":         {openPostgres, postgresWorld},
		"postgres, shared": {openPostgres, sharedPostgresWorld},
		"redis":            {openRedis, redisWorld},
		"zookeeper":        {openZooKeeper, zookeeperWorld},
	}
}

var deck []boundary

// seed returns a generator seeded with RINGFENCE_SEED, or with the time.
func seed(t *testing.T) *rand.Rand {
	n := uint64(time.Now().UnixNano())
	if text := os.Getenv("RINGFENCE_SEED"); text != "" {
		var err error
		if n, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	deck = nil
	t.Logf("RINGFENCE_SEED=%d go test -run '^%s$' ./internal/test/succession", n, t.Name())
	return rand.New(rand.NewPCG(n, 1))
}

// end returns a random ending. Five in a row are at five different boundaries.
func end(r *rand.Rand, signal syscall.Signal) *ending {
	if len(deck) == 0 {
		deck = slices.Clone(boundaries)
		r.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
	}
	at := deck[0]
	deck = deck[1:]
	return &ending{At: at, Step: 1 + r.IntN(3), Signal: signal, Sends: 1 + r.IntN(2)}
}

// steps is the number of steps in all rounds.
func (w *world) steps() int { return rounds * len(w.stored().Steps) }

// check checks the checkpoint and the effects after the task is done.
func (w *world) check() (problems []string) {
	cp := w.stored()
	if cp.Status != checkpoint.Done {
		problems = append(problems,
			fmt.Sprintf("the task is %s at step %d of round %d", cp.Status, cp.Step, cp.Round))
	}
	var once, least []string
	for i := range w.steps() {
		name := cp.Steps[i%len(cp.Steps)]
		if w.exactlyOnce != nil && i%2 == 0 {
			once = append(once, fmt.Sprintf("%s %d", name, i+1))
		} else {
			least = append(least,
				checkpoint.Key{Task: taskName, Run: 1, Round: int64(i/len(cp.Steps)) + 1, Step: name}.String())
		}
	}
	if w.exactlyOnce != nil {
		if got := w.exactlyOnce(); !slices.Equal(got, once) {
			problems = append(problems, fmt.Sprintf("the synchronous effects are %q, want %q", got, once))
		}
	}
	if got := slices.Compact(w.outside()); !slices.Equal(got, least) {
		problems = append(problems,
			fmt.Sprintf("the asynchronous effects, without immediate repetitions, are %q, want %q", got,
				least))
	}
	return problems
}

// killed runs leaders until the task is done, and kills each at a boundary.
func (w *world) killed(r *rand.Rand) (kills int) {
	var pointer int64
	for l := w.start(end(r, syscall.SIGKILL), false); ; l = w.succeed(l, end(r, syscall.SIGKILL),
		false) {
		version := l.took()
		if version < pointer {
			w.t.Errorf("leader %s took version %d after version %d", l.token, version, pointer)
		}
		pointer = version
		switch code := l.wait(); code {
		case -1:
			kills++
		case exitDone:
			return kills
		default:
			w.t.Fatalf("leader %s ended with %d: %s", l.token, code, l.log)
		}
	}
}

// deposed runs leaders until the task is done. It stops each at a boundary, and wakes it when its
// successor has the checkpoint, before the successor runs a step. It returns the changes that
// deposed leaders have made.
func (w *world) deposed(r *rand.Rand) (stops int, problems []string) {
	old := w.start(end(r, syscall.SIGSTOP), false)
	old.took()
	for {
		if !old.stopped() {
			if code := old.wait(); code != exitDone {
				w.t.Fatalf("leader %s ended with %d: %s", old.token, code, old.log)
			}
			return stops, problems
		}
		stops++
		next := w.succeed(old, end(r, syscall.SIGSTOP), true)
		took := next.took()
		// old's last commit has ended the task, so old exits with 0
		ended := w.stored().Status == checkpoint.Done
		old.wake()
		if code := old.wait(); code != exitDeposed && !ended {
			problems = append(problems,
				fmt.Sprintf("deposed leader %s ended with %d: %s", old.token, code, old.log))
		}
		if now := w.stored().Version; now != took {
			problems = append(problems,
				fmt.Sprintf("the deposed leader %s changed version %d to %d after leader %s had taken it",
					old.token, took, now, next.token))
			return stops, problems
		}
		next.resume()
		old = next
	}
}

func TestAfterAKillAtAnyBoundaryTheNextLeaderContinuesWithTheRightStep(t *testing.T) {
	for name, j := range journals {
		t.Run(name, func(t *testing.T) {
			r := seed(t)
			kills := 0
			for kills < 10 && !t.Failed() {
				w := j.world(t)
				kills += w.killed(r)
				for _, p := range w.check() {
					t.Error(p)
				}
			}
			t.Logf("%d leaders were killed", kills)
		})
	}
}

func TestADeposedLeaderThatWakesAtAnyBoundaryChangesNothing(t *testing.T) {
	for name, j := range journals {
		t.Run(name, func(t *testing.T) {
			r := seed(t)
			stops := 0
			for stops < 10 && !t.Failed() {
				w := j.world(t)
				n, problems := w.deposed(r)
				stops += n
				for _, p := range append(problems, w.check()...) {
					t.Error(p)
				}
			}
			t.Logf("%d leaders were deposed", stops)
		})
	}
}

func TestWithoutTheFenceADeposedLeaderChangesTheTask(t *testing.T) {
	r := seed(t)
	for range 10 {
		w := postgresWorld(t)
		w.unfence()
		if _, problems := w.deposed(r); len(problems) > 0 {
			t.Logf("as expected: %s", problems[0])
			return
		}
	}
	t.Error("without the fence, no deposed leader changed the task")
}
