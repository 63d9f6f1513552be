package markstest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
)

// first is the lowest token of the contract: above 2^53, so that neighbours differ in a digit that
// a float loses.
const first fence.Token = 1<<53 + 1

const (
	orders fence.Resource = "orders_with_a_name_that_is_as_long_as_one_may_be"
	stock  fence.Resource = "stock_with_a_name_that_is_as_long_as_one_may_be_"

	here      fence.Issuer = "coordinator-1"
	elsewhere fence.Issuer = "coordinator-2"
)

// ofOrders and ofStock claim the n-th token of a resource.
func ofOrders(n int) fence.Claim { return claim(orders, n) }
func ofStock(n int) fence.Claim  { return claim(stock, n) }

func claim(r fence.Resource, n int) fence.Claim {
	return fence.Claim{
		Resource: r, Token: first + fence.Token(n), Issuer: here, Holder: fmt.Sprintf("host-%d", n),
	}
}

// stage is what a clause works with: the fixture, a context with a deadline, and steps that fail
// the test on an error.
type stage struct {
	testing.TB
	Fixture
	ctx context.Context
}

// patience is how long a clause may take on a busy machine with a slow disk.
const patience = 5 * time.Minute

func newStage(t testing.TB, f Fixture) *stage {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return &stage{TB: t, Fixture: f, ctx: ctx}
}

// connect opens a session that is closed at the end of the test.
func (k *stage) connect() Conn {
	k.Helper()
	c := k.Connect(k.TB)
	k.Cleanup(c.Close)
	return c
}

// register calls Register, which must not fail.
func (k *stage) register(c Conn, claims ...fence.Claim) marks.Registration {
	k.Helper()
	st, err := k.Store.Register(k.ctx, c.Session(), claims)
	if err != nil {
		k.Fatalf("register %v: %v", claims, err)
	}
	return st
}

// expect calls Register, which must return this step.
func (k *stage) expect(want marks.Next, c Conn, claims ...fence.Claim) marks.Registration {
	k.Helper()
	st := k.register(c, claims...)
	if st.Next != want {
		k.Fatalf("register %v: step %s for %s, want %s",
			claims, name(st.Next), st.Claim, name(want))
	}
	return st
}

// raise calls Raise, which must succeed.
func (k *stage) raise(c fence.Claim) marks.Mark {
	k.Helper()
	before, err := k.Store.Raise(k.ctx, marks.SessionID{}, c, agreed(c))
	if err != nil {
		k.Fatalf("raise %s: %v", c, err)
	}
	return before
}

// agreed confirms a claim that is not below the mark.
func agreed(c fence.Claim) marks.Confirm {
	return func(ctx context.Context, m marks.Mark) (fence.Claim, error) {
		m.Confirmed = true
		return marks.Unverified{}.Confirm(ctx, c, m)
	}
}

// leads confirms a claim whatever the mark is, as a coordinator does that was rolled back.
func leads(c fence.Claim) marks.Confirm {
	return func(context.Context, marks.Mark) (fence.Claim, error) { return c, nil }
}

// revoke calls Revoke, which must succeed.
func (k *stage) revoke(c fence.Claim) int {
	k.Helper()
	n, err := k.Store.Revoke(k.ctx, marks.SessionID{}, c)
	if err != nil {
		k.Fatalf("revoke for %s: %v", c, err)
	}
	return n
}

// release releases sessions, whatever they have claimed of orders and stock.
func (k *stage) release(conns ...Conn) {
	k.Helper()
	if _, err := k.Store.Release(k.ctx, departed(conns...)...); err != nil {
		k.Fatalf("release: %v", err)
	}
}

func departed(conns ...Conn) (all []marks.Departed) {
	for _, c := range conns {
		all = append(all, marks.Departed{
			Session: c.Session(), Resources: []fence.Resource{orders, stock},
		})
	}
	return all
}

// admit takes all steps until the session is admitted.
func (k *stage) admit(c Conn, claims ...fence.Claim) {
	k.Helper()
	for {
		switch st := k.register(c, claims...); st.Next {
		case marks.Admitted:
			return
		case marks.MustRaise:
			if _, err := k.Store.Raise(k.ctx, c.Session(), st.Claim, agreed(st.Claim)); err != nil {
				k.Fatalf("raise %s: %v", st.Claim, err)
			}
		case marks.MustRevoke:
			if _, err := k.Store.Revoke(k.ctx, c.Session(), st.Claim); err != nil {
				k.Fatalf("revoke for %s: %v", st.Claim, err)
			}
		}
	}
}

// admitted opens a session and admits it under these claims.
func (k *stage) admitted(claims ...fence.Claim) Conn {
	k.Helper()
	c := k.connect()
	k.admit(c, claims...)
	return c
}

// mark reads one mark, and returns the zero Mark when there is none.
func (k *stage) mark(r fence.Resource) marks.Mark {
	k.Helper()
	found, err := k.Store.Marks(k.ctx, r)
	if err != nil {
		k.Fatalf("marks: %v", err)
	}
	if len(found) == 0 {
		return marks.Mark{}
	}
	if len(found) > 1 || found[0].Resource != r {
		k.Fatalf("marks of %s: %+v", r, found)
	}
	return found[0]
}

// recorded returns how many sessions of a resource are recorded.
func (k *stage) recorded(r fence.Resource) int {
	k.Helper()
	found, err := k.Store.Marks(k.ctx)
	if err != nil {
		k.Fatalf("marks: %v", err)
	}
	for _, m := range found {
		if m.Resource == r {
			return m.Sessions
		}
	}
	return 0
}

// works fails the test unless the session can write.
func (k *stage) works(c Conn) {
	k.Helper()
	if err := c.Write(k.ctx, "works"); err != nil {
		k.Fatalf("session %v cannot write, though nothing was to end it: %v", c.Session(), err)
	}
}

// ended fails the test if the session can still write.
func (k *stage) ended(c Conn) {
	k.Helper()
	const value = "after the end"
	if err := c.Write(k.ctx, value); err == nil {
		k.Fatalf("session %v can still write", c.Session())
	}
	if k.ctx.Err() != nil {
		k.Fatalf("the session's write timed out, which proves nothing")
	}
	if slices.Contains(k.Written(k.TB), value) {
		k.Fatalf("session %v failed to write, but its value was stored", c.Session())
	}
}

// refused fails the test unless err is a refusal with this sentinel, a message, a detail and a
// hint.
func (k *stage) refused(err, sentinel error) {
	k.Helper()
	if !errors.Is(err, sentinel) {
		k.Fatalf("got %v, want a refusal: %v", err, sentinel)
	}
	var r *fence.Refusal
	if !errors.As(err, &r) {
		k.Fatalf("%v is not a *fence.Refusal", err)
	}
	if r.Message == "" || r.Detail == "" || r.Hint == "" {
		k.Fatalf("the refusal does not say what, why and what to do: %+v", r)
	}
}

func name(s marks.Next) string {
	return [...]string{
		marks.Admitted: "Admitted", marks.MustRaise: "MustRaise", marks.MustRevoke: "MustRevoke",
	}[s]
}
