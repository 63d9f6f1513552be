package markstest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/test/contract"
)

var randomClauses = []contract.Clause[*stage]{
	{Name: "Guards that interleave at random and stop anywhere never admit two tokens at once, " +
		"and agree with the model", Holds: randomInterleaving},
}

// newcomer is one guard's attempt to admit one session. It takes the steps of marks.Admission as
// separate calls, and makes each call to the store under test also to the model.
type newcomer struct {
	conn   Conn
	twin   *ModelConn
	claims []fence.Claim
	st     marks.Registration // the last answer of Register
	due    bool               // the step of st is to be taken
}

// world is a random run.
type world struct {
	*stage
	rnd      *rand.Rand
	model    *Model
	high     map[fence.Resource]int
	coming   []*newcomer // between connecting and admission
	admitted []*newcomer // Register has said so
}

func randomInterleaving(k *stage) {
	seed := uint64(time.Now().UnixNano())
	k.Logf("seed %d", seed)
	w := &world{
		stage: k, rnd: rand.New(rand.NewPCG(seed, 0)), model: NewModel(),
		high: map[fence.Resource]int{orders: 3, stock: 3},
	}
	for range 300 {
		switch n := w.rnd.IntN(100); {
		case n < 20 && len(w.coming) < 6, len(w.coming) == 0:
			w.arrive()
		case n < 26:
			w.abandon()
		case n < 32:
			w.depart()
		default:
			w.step(w.rnd.IntN(len(w.coming)))
		}
		w.write()
	}
	w.inOrder(k.Written(k.TB))
}

// arrive opens a session with one or two claims, each slightly older or newer than the newest so
// far.
func (w *world) arrive() {
	g := &newcomer{conn: w.connect(), twin: w.model.Connect()}
	names := []fence.Resource{orders, stock}
	w.rnd.Shuffle(2, func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, r := range names[:1+w.rnd.IntN(2)] {
		n := w.high[r] - 2 + w.rnd.IntN(4)
		w.high[r] = max(w.high[r], n)
		g.claims = append(g.claims, claim(r, n))
	}
	w.coming = append(w.coming, g)
}

// abandon stops a guard between two steps. The client's connection may stay open.
func (w *world) abandon() {
	i := w.rnd.IntN(len(w.coming))
	g := w.coming[i]
	w.coming = slices.Delete(w.coming, i, i+1)
	if w.rnd.IntN(2) == 0 {
		g.conn.Close()
		g.twin.Close()
	}
}

// depart closes an admitted client's connection, or has its guard release it while it still lives.
func (w *world) depart() {
	if len(w.admitted) == 0 {
		return
	}
	i := w.rnd.IntN(len(w.admitted))
	g := w.admitted[i]
	if w.rnd.IntN(3) > 0 {
		w.admitted = slices.Delete(w.admitted, i, i+1)
		g.conn.Close()
		g.twin.Close()
	}
	w.release(g.conn)
	_, _ = w.model.Release(w.ctx, departed(g.twin)...)
}

// step makes the next call of one newcomer.
func (w *world) step(i int) {
	w.Helper()
	g := w.coming[i]
	if g.due {
		g.due = false
		w.act(g)
		return
	}
	st, err := w.Store.Register(w.ctx, g.conn.Session(), g.claims)
	twin, terr := w.model.Register(w.ctx, g.twin.Session(), g.claims)
	if twin.Next == marks.MustRevoke && (st.Next != twin.Next || st.Claim != twin.Claim) {
		// the store may have removed records of sessions that have ended
		w.model.Sweep()
		twin, terr = w.model.Register(w.ctx, g.twin.Session(), g.claims)
	}
	w.agree(err, terr, "register %v", g.claims)
	if st.Mark.Token != twin.Mark.Token || err == nil &&
		(st.Next != twin.Next || st.Claim != twin.Claim) {
		w.Fatalf("register %v: %s for %s over %s, the model says %s for %s over %s", g.claims,
			name(st.Next), st.Claim, st.Mark.Token, name(twin.Next), twin.Claim, twin.Mark.Token)
	}
	g.st, g.due = st, true
	switch {
	case err != nil:
		w.coming = slices.Delete(w.coming, i, i+1)
		g.conn.Close()
		g.twin.Close()
	case st.Next == marks.Admitted:
		w.coming = slices.Delete(w.coming, i, i+1)
		w.admitted = append(w.admitted, g)
	}
}

// act takes the step that Register returned.
func (w *world) act(g *newcomer) {
	w.Helper()
	c := g.st.Claim
	switch g.st.Next {
	case marks.MustRaise:
		before, err := w.Store.Raise(w.ctx, marks.SessionID{}, c, agreed(c))
		twin, terr := w.model.Raise(w.ctx, marks.SessionID{}, c, agreed(c))
		w.agree(err, terr, "raise %s", c)
		if before.Token != twin.Token {
			w.Fatalf("raise %s over %s, the model says over %s", c, before.Token, twin.Token)
		}
	case marks.MustRevoke:
		_, err := w.Store.Revoke(w.ctx, marks.SessionID{}, c)
		_, terr := w.model.Revoke(w.ctx, marks.SessionID{}, c)
		w.agree(err, terr, "revoke for %s", c)
	}
}

// agree fails the test unless store and model have answered alike.
func (w *world) agree(err, model error, format string, args ...any) {
	w.Helper()
	same := err == nil && model == nil
	for _, sentinel := range []error{fence.ErrStale, fence.ErrOtherIssuer} {
		same = same || errors.Is(err, sentinel) && errors.Is(model, sentinel)
	}
	if !same {
		w.Fatalf(format+": got %v, the model says %v", append(args, err, model)...)
	}
}

// write writes on every session that was ever admitted. The sessions that can still write must be
// under one token for each resource.
func (w *world) write() {
	w.Helper()
	under := make(map[fence.Resource]fence.Token)
	for _, g := range w.admitted {
		err := g.conn.Write(w.ctx, fmt.Sprint(g.claims))
		if terr := g.twin.Write(w.ctx, ""); (err == nil) != (terr == nil) {
			w.Fatalf("a write under %v: %v, the model says %v", g.claims, err, terr)
		}
		for _, c := range g.claims {
			if err != nil {
				continue
			}
			if other, ok := under[c.Resource]; ok && other != c.Token {
				w.Fatalf("sessions of %s live under %s and %s at once", c.Resource, other, c.Token)
			}
			under[c.Resource] = c.Token
		}
	}
	w.admitted = slices.DeleteFunc(w.admitted, func(g *newcomer) bool {
		return g.twin.Write(w.ctx, "") != nil
	})
}

// inOrder fails the test if an accepted write has a lower token than an earlier one. Each value is
// fmt.Sprint of the writer's claims.
func (k *stage) inOrder(written []string) {
	k.Helper()
	last := make(map[string]fence.Token)
	for i, value := range written {
		for _, c := range strings.Fields(strings.Trim(value, "[]")) {
			r, text, ok := strings.Cut(c, "=")
			token, err := fence.ParseToken(text)
			if !ok || err != nil {
				k.Fatalf("write %d is %q", i, value)
			}
			if token < last[r] {
				k.Fatalf("write %d of %d is under %s=%s, after one under %s",
					i, len(written), r, token, last[r])
			}
			last[r] = token
		}
	}
}
