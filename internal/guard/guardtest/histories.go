// Package guardtest holds what the tests of all guards share.
//
// Histories tests the property that every guard keeps: the writes that the database accepts for a
// resource never go down in token. Leaders come and go at random and write on old and new sessions:
//
//	h := &guardtest.Histories{Open: open, Written: written}
//	h.FindNoStaleWrite(t)
//
// A new protocol implements Writer and runs it twice: through a guard, where it must find no stale
// write, and without one, where it must find some.
//
// Start runs a guard in the test's process. Evictions, SlowStore, Liveness and Fleet make it do
// what a test needs.
package guardtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
)

// Writer is one connection of a leader, with the token under which the leader believes it leads.
type Writer interface {
	// Write adds an entry with the token to the history of the resource. r chooses how: at once, or
	// in a transaction that stays open until a later Write.
	Write(ctx context.Context, r *rand.Rand) error
	// Close closes the connection, with or without the protocol's goodbye.
	Close(r *rand.Rand)
}

// Histories is one run of the property.
type Histories struct {
	// Open opens a connection. A guard may refuse it.
	Open func(ctx context.Context, r *rand.Rand, resource string, token fence.Token) (Writer, error)
	// Written returns the token of each write of a resource, in the order in which the database
	// accepted them.
	Written func(t testing.TB, resource string) []fence.Token
	// Fault harms the guards now and then; it may be nil.
	Fault func(r *rand.Rand)
	// Leaders work at once and make Moves moves each; 8 and 60 when zero.
	Leaders, Moves int

	mu     sync.Mutex
	newest map[string]fence.Token
	kept   []Writer // a later move may write on one of these, whatever has happened since
	writes int
}

// Resources are the resources that the histories are about.
var Resources = []string{"orders", "stock"}

// FindNoStaleWrite plays the history and fails the test if a deposed leader has written.
func (h *Histories) FindNoStaleWrite(t testing.TB) {
	t.Helper()
	if bad := h.play(t); len(bad) > 0 {
		t.Errorf("%d writes of deposed leaders, such as %s", len(bad), bad[0])
	}
}

// FindStaleWrites plays the history where nothing prevents stale writes, and fails the test if
// there are none: FindNoStaleWrite would then prove nothing.
func (h *Histories) FindStaleWrites(t testing.TB) {
	t.Helper()
	bad := h.play(t)
	t.Logf("%d stale writes", len(bad))
	if len(bad) == 0 {
		t.Error("no stale write was found where nothing prevents them")
	}
}

// seed is RINGFENCE_SEED, or a new one.
func seed(t testing.TB) uint64 {
	s, err := strconv.ParseUint(os.Getenv("RINGFENCE_SEED"), 10, 64)
	if err != nil {
		s = rand.Uint64()
	}
	t.Logf("to make the same moves again: RINGFENCE_SEED=%d", s)
	return s
}

// play lets all leaders make their moves and returns the stale writes. It fails the test when there
// were too few writes to prove anything.
func (h *Histories) play(t testing.TB) (bad []string) {
	t.Helper()
	if h.Leaders == 0 {
		h.Leaders = 8
	}
	if h.Moves == 0 {
		h.Moves = 60
	}
	h.newest = make(map[string]fence.Token)
	for _, r := range Resources {
		h.newest[r] = 1
	}
	s := seed(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for i := range h.Leaders {
		r := rand.New(rand.NewPCG(s, uint64(i)))
		all.Go(func() {
			for range h.Moves {
				h.move(ctx, r)
			}
		})
	}
	all.Wait()
	for _, w := range h.kept {
		w.Close(rand.New(rand.NewPCG(s, 0)))
	}
	if h.writes < h.Leaders*h.Moves/4 {
		t.Errorf("only %d writes: too few to prove anything", h.writes)
	}
	for _, resource := range Resources {
		tokens := h.Written(t, resource)
		t.Logf("%s: %d writes", resource, len(tokens))
		bad = append(bad, descents(resource, tokens)...)
	}
	return bad
}

// move writes on a connection that was kept, or opens one and writes.
func (h *Histories) move(ctx context.Context, r *rand.Rand) {
	w := h.take(r)
	if w == nil {
		var err error
		if w, err = h.open(ctx, r); err != nil {
			return
		}
	}
	for range 1 + r.IntN(3) {
		if w.Write(ctx, r) != nil {
			w.Close(r)
			return
		}
		h.mu.Lock()
		h.writes++
		h.mu.Unlock()
	}
	if r.IntN(20) < 14 {
		h.keep(w)
	} else {
		w.Close(r)
	}
	if h.Fault != nil && r.IntN(40) == 0 {
		h.Fault(r)
	}
}

// open opens a connection under the newest token, a newer one, or a stale one.
func (h *Histories) open(ctx context.Context, r *rand.Rand) (Writer, error) {
	resource := Resources[r.IntN(len(Resources))]
	h.mu.Lock()
	if r.IntN(4) == 0 {
		h.newest[resource] += fence.Token(1 + r.IntN(3))
	}
	token := h.newest[resource]
	h.mu.Unlock()
	if r.IntN(3) == 0 {
		token = max(1, token-fence.Token(r.IntN(5)))
	}
	bounded, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return h.Open(bounded, r, resource, token)
}

func (h *Histories) keep(w Writer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kept = append(h.kept, w)
}

// take removes a connection from those that were kept. It returns nil when the move is to open one.
func (h *Histories) take(r *rand.Rand) Writer {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.kept) == 0 || len(h.kept) < 12 && r.IntN(2) == 0 {
		return nil
	}
	i := r.IntN(len(h.kept))
	w := h.kept[i]
	h.kept[i] = h.kept[len(h.kept)-1]
	h.kept = h.kept[:len(h.kept)-1]
	return w
}

// descents describes each write that follows one under a higher token.
func descents(resource string, tokens []fence.Token) (bad []string) {
	var highest fence.Token
	for i, token := range tokens {
		if token.Compare(highest) < 0 {
			bad = append(bad,
				fmt.Sprintf("%s: write %d under token %s after %s", resource, i, token, highest))
		}
		highest = max(highest, token)
	}
	return bad
}
