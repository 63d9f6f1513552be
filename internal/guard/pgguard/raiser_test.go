package pgguard

import (
	"errors"
	"net/url"
	"testing"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/test/must"
)

// plain returns a URL through the guard without a token.
func (g *guarded) plain(user string) string {
	u := url.URL{Scheme: "postgres", User: url.User(user), Host: g.Addr, Path: g.database}
	return u.String()
}

func TestANewLeaderRaisesTheMarkByOpeningASessionThroughTheGuard(t *testing.T) {
	t.Parallel()
	g := fenced(t)
	old := g.open(5)
	c := fence.Claim{Resource: "orders", Token: 7, Holder: "host-b"}
	must.Succeed(t, pgmarks.NewRaiser(g.plain("app")).Raise(t.Context(), c))
	if n := g.markOf("orders"); n != 7 {
		t.Errorf("the mark is %d", n)
	}
	_, err := old.Exec(t.Context(), "insert into ledger (token) values (5)")
	wantCode(t, err, "RF001")
	c.Token = 6
	err = pgmarks.NewRaiser(g.plain("app")).Raise(t.Context(), c)
	var r *fence.Refusal
	if !errors.Is(err, fence.ErrStale) || !errors.As(err, &r) || r.Detail == "" || r.Hint == "" {
		t.Errorf("got %v", err)
	}
}

func TestWithoutAGuardANewLeaderRaisesTheMarkDirectly(t *testing.T) {
	t.Parallel()
	g := fenced(t)
	old := g.open(5)
	c := fence.Claim{Resource: "orders", Token: 7, Issuer: elector.Unverified, Holder: "host-b"}
	err := pgmarks.NewRaiser(g.pg.URL("guard_role", g.database)).Raise(t.Context(), c)
	must.Succeed(t, err)
	_, err = old.Exec(t.Context(), "insert into ledger (token) values (5)")
	wantCode(t, err, "RF001")
	c.Token = 6
	err = pgmarks.NewRaiser(g.pg.URL("guard_role", g.database)).Raise(t.Context(), c)
	if !errors.Is(err, fence.ErrStale) {
		t.Errorf("got %v", err)
	}
	if err := pgmarks.NewRaiser(g.pg.URL("app", g.database)).Raise(t.Context(), c); err == nil {
		t.Error("an application role has raised a mark directly")
	}
}
