// Package guardtest has the property that every guard keeps, as a test: leaders come and go at random, write on
// sessions old and new, and the writes that the database took never go down in token. A new protocol implements
// Session. Serve starts a guard for tests of what goes through one.
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

// Session is one connection of a leader, and what it believes.
type Session interface {
	// Write adds an entry with the session's token to the history of its resource, in whatever way r chooses: at once, or
	// in a transaction that stays open until a later Write.
	Write(ctx context.Context, r *rand.Rand) error
	// Close ends the session, in an orderly way or without a word.
	Close(r *rand.Rand)
}

// Histories is one run of the property.
type Histories struct {
	// Open opens a session, which a guard may refuse.
	Open func(ctx context.Context, r *rand.Rand, resource string, token fence.Token) (Session, error)
	// Fault does some harm to the guards now and then; it may be nil.
	Fault func(r *rand.Rand)
	// Leaders work at once and make Moves moves each; 8 and 60 when zero.
	Leaders, Moves int

	mu     sync.Mutex
	newest map[string]fence.Token
	kept   []Session // that somebody may write on later, whatever has happened in the meantime
	writes int
}

// Resources are what the histories are about.
var Resources = []string{"orders", "stock"}

// seed is RINGFENCE_SEED, or new.
func seed(t testing.TB) uint64 {
	s, err := strconv.ParseUint(os.Getenv("RINGFENCE_SEED"), 10, 64)
	if err != nil {
		s = rand.Uint64()
	}
	t.Logf("to make the same moves again: RINGFENCE_SEED=%d", s)
	return s
}

// Play lets all leaders make their moves. It fails the test when too few writes came of them to prove anything.
func (h *Histories) Play(t testing.TB) {
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
	for _, l := range h.kept {
		l.Close(rand.New(rand.NewPCG(s, 0)))
	}
	if h.writes < h.Leaders*h.Moves/4 {
		t.Errorf("only %d writes: too few to prove anything", h.writes)
	}
}

// move is one thing that somebody does: open a session and write, or write on one that was kept.
func (h *Histories) move(ctx context.Context, r *rand.Rand) {
	l := h.take(r)
	if l == nil {
		var err error
		if l, err = h.elect(ctx, r); err != nil {
			return
		}
	}
	for range 1 + r.IntN(3) {
		if l.Write(ctx, r) != nil {
			l.Close(r)
			return
		}
		h.mu.Lock()
		h.writes++
		h.mu.Unlock()
	}
	if r.IntN(20) < 14 {
		h.keep(l)
	} else {
		l.Close(r)
	}
	if h.Fault != nil && r.IntN(40) == 0 {
		h.Fault(r)
	}
}

// elect opens a session under the newest token, a newer one, or one that is out of date.
func (h *Histories) elect(ctx context.Context, r *rand.Rand) (Session, error) {
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

func (h *Histories) keep(l Session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kept = append(h.kept, l)
}

// take is a session that was kept, or nil.
func (h *Histories) take(r *rand.Rand) Session {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.kept) == 0 || len(h.kept) < 12 && r.IntN(2) == 0 {
		return nil
	}
	i := r.IntN(len(h.kept))
	l := h.kept[i]
	h.kept[i] = h.kept[len(h.kept)-1]
	h.kept = h.kept[:len(h.kept)-1]
	return l
}

// Descents are the writes of one resource, in the order in which the database took them, that follow one under a higher
// token.
func Descents(resource string, tokens []fence.Token) (bad []string) {
	var highest fence.Token
	for i, token := range tokens {
		if token.Compare(highest) < 0 {
			bad = append(bad, fmt.Sprintf("%s: write %d under token %s after %s", resource, i, token, highest))
		}
		highest = max(highest, token)
	}
	return bad
}
