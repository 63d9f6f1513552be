package guard

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/poll"
)

// guests tests a limiter with connections that have no sockets.
type guests struct {
	t *testing.T
	d *limiter
}

func visit(t *testing.T, connections, unadmitted, logins int, grace time.Duration) guests {
	d := newLimiter(Limits{connections, unadmitted, logins}, grace)
	t.Cleanup(d.close)
	return guests{t, d}
}

// guest is one connection of a limiter.
type guest struct {
	*Seat
	turn *turn
	ctx  context.Context
}

func (g guests) come(address string) guest {
	ctx, cut := context.WithCancelCause(g.t.Context())
	s, turn := g.d.arrive(address, cut)
	return guest{s, turn, ctx}
}

// in returns a guest that has entered.
func (g guests) in(address string) guest {
	g.t.Helper()
	s := g.come(address)
	must.Succeed(g.t, s.entered())
	return s
}

// entered waits for an unadmitted slot.
func (g guest) entered() error { return g.enter(g.ctx, g.turn, nil) }

// waits makes a call that must wait for a slot, and returns once it waits.
func (g guests) waits(k *slots, call func() error) <-chan error {
	g.t.Helper()
	before := g.queued(k)
	result := make(chan error, 1)
	go func() { result <- call() }()
	if !poll.Until(20*time.Second, func() bool { return g.queued(k) > before }) {
		g.t.Fatal("the call does not wait")
	}
	return result
}

func (g guests) queued(k *slots) int { g.d.mu.Lock(); defer g.d.mu.Unlock(); return len(k.queue) }

func (g guest) evicted() bool {
	select {
	case <-g.ctx.Done():
		return errors.Is(context.Cause(g.ctx), Evicted)
	default:
		return false
	}
}

func TestTheConnectionThatIsSilentLongestIsEvictedFirstFromTheAddressWithTheMost(t *testing.T) {
	g := visit(t, 9, 4, 9, time.Nanosecond)
	lonely, first, second, busy := g.in("a"), g.in("b"), g.in("b"), g.in("b")
	for _, s := range []guest{lonely, busy, first, second} {
		s.Waiting()
	}
	busy.Working()
	for _, victim := range []guest{first, second, lonely} {
		g.in("c")
		if !victim.evicted() {
			t.Fatalf("want %+v evicted next", victim.Seat)
		}
	}
	if busy.evicted() {
		t.Error("a connection that waits for the server was evicted")
	}
	if err := first.Login(first.ctx); !errors.Is(err, Evicted) {
		t.Errorf("an evicted connection got a login slot: %v", err)
	}
	if err := first.Admit(first.ctx); !errors.Is(err, Evicted) {
		t.Errorf("an evicted connection was admitted: %v", err)
	}
}

func TestWithinTheGraceNewcomersWaitAndNobodyIsEvicted(t *testing.T) {
	g := visit(t, 9, 1, 9, time.Hour)
	in := g.in("a")
	in.Waiting()
	next := g.come("a")
	in.Resume()
	if in.evicted() {
		t.Error("evicted within the grace")
	}
	in.Leave()
	must.Succeed(t, next.entered())
}

// Working stops the clock of the grace and Resume restarts it where it was, so commands that lead
// nowhere do not renew the grace.
func TestAConnectionThatIsAlwaysBusyIsEvictedToo(t *testing.T) {
	g := visit(t, 9, 1, 9, 30*time.Millisecond)
	busy := g.in("a")
	busy.Waiting()
	busy.Working()
	next := g.come("a")
	for deadline := time.Now().Add(20 * time.Second); !busy.evicted() &&
		time.Now().Before(deadline); {
		busy.Resume()
		busy.Working()
	}
	must.Succeed(t, next.entered())
}

func TestAStalledLoginGivesItsSlotToTheLastInTheQueueAndAnEndedOneToTheFirst(t *testing.T) {
	for name, end := range map[string]func(guests, guest){
		"it stalls":      func(g guests, s guest) { s.Waiting(); g.d.again() },
		"it fails":       func(_ guests, s guest) { s.EndLogin() },
		"it is admitted": func(_ guests, s guest) { _ = s.Admit(s.ctx) },
		"it leaves":      func(_ guests, s guest) { s.Leave() },
	} {
		t.Run(name, func(t *testing.T) {
			g := visit(t, 9, 9, 1, time.Nanosecond)
			holder, first, last := g.in("a"), g.in("a"), g.in("a")
			must.Succeed(t, holder.Login(holder.ctx))
			one := g.waits(&g.d.logins, func() error { return first.Login(first.ctx) })
			two := g.waits(&g.d.logins, func() error { return last.Login(last.ctx) })
			end(g, holder)
			if name == "it stalls" {
				one, two = two, one
			}
			must.Report(t, <-one)
			select {
			case err := <-two:
				t.Errorf("the other connection has a slot too: %v", err)
			default:
			}
			first.Leave()
			last.Leave()
			<-two
		})
	}
}

func TestTheAddressThatHoldsTheFewestSlotsIsServedNext(t *testing.T) {
	g := visit(t, 9, 9, 2, time.Hour)
	holders := []guest{g.in("a"), g.in("a")}
	for _, s := range holders {
		must.Succeed(t, s.Login(s.ctx))
	}
	crowd, other := g.in("a"), g.in("b")
	late := g.waits(&g.d.logins, func() error { return crowd.Login(crowd.ctx) })
	early := g.waits(&g.d.logins, func() error { return other.Login(other.ctx) })
	holders[0].Leave()
	must.Report(t, <-early)
	if n := g.queued(&g.d.logins); n != 1 {
		t.Errorf("%d connections wait, want 1", n)
	}
	holders[1].Leave()
	must.Succeed(t, <-late)
}

func TestAFullQueueDropsTheOldestEntryOfTheAddressThatHasTheMost(t *testing.T) {
	g := visit(t, 9, 3, 9, time.Hour)
	g.d.unadmitted.longest = 3
	holder, _, _ := g.in("a"), g.in("a"), g.in("a")
	other, first, second, leader := g.come("b"), g.come("a"), g.come("a"), g.come("c")
	if err := first.entered(); !errors.Is(err, Crowded) {
		t.Errorf("got %v", err)
	}
	for _, s := range []guest{holder, other, leader} {
		s.Leave()
	}
	for name, s := range map[string]guest{"b": other, "c": leader, "a": second} {
		if err := s.entered(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAShutdownAndTheEndOfAContextEndEveryWait(t *testing.T) {
	g := visit(t, 1, 2, 9, time.Hour)
	in, second := g.in("a"), g.in("a")
	must.Succeed(t, in.Admit(in.ctx))
	in2 := g.in("a")
	draining := make(chan struct{})
	close(draining)
	outside := g.come("a")
	if err := outside.enter(outside.ctx, outside.turn, draining); !errors.Is(err, errShutdown) {
		t.Errorf("got %v", err)
	}
	bounded, cancel := context.WithTimeout(second.ctx, 20*time.Millisecond)
	defer cancel()
	var full FullError
	if err := second.Admit(bounded); !errors.As(err, &full) || full.Max != 1 {
		t.Errorf("got %v", err)
	}
	in2.conn.cut(Evicted)
	if err := in2.Admit(in2.ctx); !errors.Is(err, Evicted) {
		t.Errorf("got %v", err)
	}
	if n := g.queued(&g.d.unadmitted) + g.queued(&g.d.admitted); n != 0 {
		t.Errorf("%d connections still wait", n)
	}
}

// Many connections come and go in every way at once: no slot is lost or given out twice, and no
// connection waits forever.
func TestNoSlotIsLostOrGivenOutTwice(t *testing.T) {
	g := visit(t, 4, 5, 2, time.Millisecond)
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			for j := range 50 {
				g.random(i, j)
			}
		})
	}
	all.Wait()
	for _, k := range []*slots{&g.d.unadmitted, &g.d.logins, &g.d.admitted} {
		if len(k.held)+len(k.holding)+len(k.queue)+len(k.queued) != 0 {
			t.Errorf("left behind: %+v", k)
		}
	}
}

func (g guests) random(i, j int) {
	s := g.come(string(rune('a' + i%3)))
	defer s.Leave()
	if s.entered() != nil {
		return
	}
	s.Waiting()
	bounded, cancel := context.WithTimeout(s.ctx, time.Duration(j)*time.Millisecond)
	defer cancel()
	if j%5 == i%5 {
		<-bounded.Done() // until it is evicted or gives up
		return
	}
	s.Working()
	if s.Login(bounded) == nil && s.Admit(bounded) == nil {
		g.d.mu.Lock()
		defer g.d.mu.Unlock()
		if len(g.d.admitted.held) > 4 || len(g.d.logins.held) > 2 || len(g.d.unadmitted.held) > 5 {
			g.t.Error("more slots are taken than exist")
		}
	}
}
