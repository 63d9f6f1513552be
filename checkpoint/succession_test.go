package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/checkpointtest"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
)

// seeds returns RINGFENCE_SEED, or n random seeds.
func seeds(t *testing.T, n int) []uint64 {
	if one, err := strconv.ParseUint(os.Getenv("RINGFENCE_SEED"), 10, 64); err == nil {
		return []uint64{one}
	}
	all := make([]uint64, n)
	for i := range all {
		all[i] = rand.Uint64()
	}
	return all
}

func TestTheTaskContinuesWhereverALeaderEnds(t *testing.T) {
	leaders, done := 0, 0
	for _, seed := range seeds(t, 200) {
		synctest.Test(t, func(t *testing.T) {
			s := newSuccession(seed, func(m *checkpointtest.Memory) checkpoint.Journal { return m })
			if err := s.play(); err != nil {
				t.Fatalf("%v\nto repeat this run: RINGFENCE_SEED=%d go test -run '^%s$'",
					err, seed, t.Name())
			}
			leaders += len(s.leaders)
			done++
		})
	}
	if leaders < 3*done {
		t.Errorf("only %d leaders in %d runs: that proves little", leaders, done)
	}
	t.Logf("%d leaders in %d runs", leaders, done)
}

// succession is one seeded run of a task. Its leaders end one after the other, each at a boundary
// of some step: the leader is paused, or waits for an answer that never comes. Paused leaders wake
// later, while another one leads.
type succession struct {
	rnd     *rand.Rand
	memory  *checkpointtest.Memory
	journal checkpoint.Journal // memory, or a flawed journal around it
	task    checkpoint.Task[done]
	sync    []bool // which steps are synchronous

	mu      sync.Mutex
	leaders map[fence.Token]*leader
	last    fence.Token
	asleep  []*leader // the paused leaders
	places  map[string]int
	seen    checkpoint.Checkpoint // the last stored checkpoint that look has seen
	wrong   error                 // the first violation
}

// leader is one process.
type leader struct {
	rnd    *rand.Rand
	left   int                  // boundaries until it ends
	fault  checkpointtest.Fault // how it ends if it ends in a call of the journal
	ended  chan struct{}        // closed when it has reached its last boundary
	awake  chan struct{}        // closed when it continues
	kill   context.CancelCauseFunc
	done   chan struct{} // closed when Run has returned
	answer error         // of Run
}

var errKilled = errors.New("killed")

func newSuccession(
	seed uint64, journal func(*checkpointtest.Memory) checkpoint.Journal,
) *succession {
	s := &succession{
		rnd: rand.New(rand.NewPCG(seed, 0)), memory: checkpointtest.NewMemory(),
		leaders: make(map[fence.Token]*leader), places: make(map[string]int), last: 1 << 53,
	}
	s.journal = journal(s.memory)
	s.memory.Fail = s.fail
	s.task = tasked()
	s.task.Rounds = 1 + s.rnd.Int64N(3)
	s.task.Retry = checkpoint.Retry{Attempts: 1000}
	for i := range 2 + s.rnd.IntN(3) {
		s.sync = append(s.sync, s.rnd.IntN(2) == 0)
		s.task.Steps = append(s.task.Steps, s.step(fmt.Sprint("step ", i), s.sync[i], s.rnd.IntN(3) == 0))
	}
	return s
}

// lead starts the next leader.
func (s *succession) lead() (*leader, error) {
	s.last++
	c := fence.Claim{Resource: orders, Token: s.last, Issuer: "coordinator-1",
		Holder: fmt.Sprint("host-", len(s.leaders))}
	if err := s.journal.Raise(context.Background(), c); err != nil {
		return nil, err
	}
	l := &leader{
		rnd: rand.New(rand.NewPCG(s.rnd.Uint64(), 0)), left: 1 + s.rnd.IntN(12),
		fault: []checkpointtest.Fault{checkpointtest.None, checkpointtest.HungRequest,
			checkpointtest.HungReply}[s.rnd.IntN(3)],
		ended: make(chan struct{}), awake: make(chan struct{}), done: make(chan struct{}),
	}
	if len(s.leaders) > 200 {
		l.left = 1 << 30
	}
	s.mu.Lock()
	s.leaders[c.Token] = l
	s.mu.Unlock()
	term, _ := elector.NewTerm(c, time.Now(), 1000*sessionTimeout, nothing{})
	ctx, kill := context.WithCancelCause(context.WithValue(context.Background(), leaderKey{}, l))
	l.kill = kill
	go func() {
		defer close(l.done)
		_, l.answer = s.task.Run(ctx, term, s.journal, checkpoint.Checkpoint{})
		_ = term.Resign(context.Background())
	}()
	return l, nil
}

// play runs the task to its end and returns the first violation.
func (s *succession) play() error {
	for {
		l, err := s.lead()
		if err != nil {
			return err
		}
		select {
		case <-l.ended:
			synctest.Wait() // until what it sent has landed
			continue
		case <-l.done:
		}
		s.end()
		if l.answer != nil {
			return fmt.Errorf("leader %d, which had no fault, ended with: %w",
				len(s.leaders), l.answer)
		}
		return s.judge(l)
	}
}

// end lets all earlier leaders continue, and then kills those that have not returned.
func (s *succession) end() {
	for s.wake() {
		synctest.Wait()
		s.look()
	}
	for _, l := range s.leaders {
		l.kill(errKilled)
		<-l.done
	}
	s.look()
}
