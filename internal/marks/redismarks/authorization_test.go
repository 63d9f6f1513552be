package redismarks_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// authorized returns a server where authorization is on, with a user for each name.
func authorized(t *testing.T, users ...string) *bench {
	t.Helper()
	b := open(t, serverstest.Redis(t, servers.RedisOptions{}))
	for _, user := range users {
		aclUser(t, b, "ACL SETUSER "+user+" on >secret ~* &* +@all")
	}
	must.Succeed(t, b.store.Authorize(t.Context(), true))
	return b
}

// claims opens a session of a user and claims a token under a name that another user might have.
func (b *bench) claims(t *testing.T, user string, c fence.Claim) error {
	t.Helper()
	s := b.session(t)
	t.Cleanup(s.Close)
	must.Succeed(t, s.link.Do(t.Context(), "AUTH", user, "secret").Err())
	// The name that Identify looks for is the client's, and says who it would like to be.
	const nonce = "nonce=user=app"
	must.Succeed(t, s.link.ClientSetName(t.Context(), nonce).Err())
	sess, err := b.store.Identify(t.Context(), s.s.ID, nonce)
	must.Succeed(t, err)
	if sess.User != user {
		t.Errorf("the user of the session is %q, want %q", sess.User, user)
	}
	return b.admission(trusting{}).Admit(t.Context(), sess, marks.Present(c))
}

func (b *bench) allow(t *testing.T, user string, all ...marks.Pattern) {
	t.Helper()
	must.Succeed(t, b.store.Allow(t.Context(), user, all...))
}

func TestOnlyAllowedUsersClaim(t *testing.T) {
	t.Parallel()
	b := authorized(t, "app", "stranger")
	b.allow(t, "app", "orders", "st*k")
	must.Succeed(t, b.claims(t, "app", claim(5)))
	err := b.claims(t, "stranger", claim(7))
	var r *fence.Refusal
	if !errors.Is(err, fence.ErrNotAuthorized) || !errors.As(err, &r) ||
		!strings.Contains(r.Hint, "guard allow stranger orders") {
		t.Errorf("a stranger: %v", err)
	}
	if m, err := b.store.Marks(t.Context()); err != nil || m[0].Token != 5 {
		t.Errorf("the mark after the refusal: %+v, %v", m, err)
	}
	stock := fence.Claim{Resource: "stock", Token: 5, Issuer: elector.Unverified, Holder: "host"}
	if err := b.claims(t, "app", stock); err != nil {
		t.Errorf("a resource that fits a pattern: %v", err)
	}
	stock.Resource = "stocks"
	if err := b.claims(t, "app", stock); !errors.Is(err, fence.ErrNotAuthorized) {
		t.Errorf("a resource that fits no pattern: %v", err)
	}
	if n, err := b.store.Forbid(t.Context(), "app", "orders"); n != 1 || err != nil {
		t.Errorf("forbid: %d, %v", n, err)
	}
	if err := b.claims(t, "app", claim(5)); !errors.Is(err, fence.ErrNotAuthorized) {
		t.Errorf("what was forbidden: %v", err)
	}
	all, err := b.store.Authorization(t.Context())
	if err != nil || !all.On || len(all.Allowed) != 1 || all.Allowed[0].Pattern != "st*k" {
		t.Errorf("what the operator sees: %+v, %v", all, err)
	}
	must.Succeed(t, b.store.Authorize(t.Context(), false))
	if err := b.claims(t, "stranger", claim(7)); err != nil {
		t.Errorf("with authorization off: %v", err)
	}
}

// Sessions that were admitted before are listed while they live.
func TestSessionsThatWouldBeRefusedAreNamed(t *testing.T) {
	t.Parallel()
	b := open(t, serverstest.Redis(t, servers.RedisOptions{}))
	b.admit(t, marks.Unverified{}, 5)
	all, err := b.store.Authorization(t.Context())
	if err != nil || len(all.Strangers) != 1 || all.Strangers[0].Role != "default" ||
		!strings.Contains(all.Strangers[0].String(), "under orders") {
		t.Errorf("got %+v, %v", all, err)
	}
	b.allow(t, "default", "*")
	if all, err = b.store.Authorization(t.Context()); err != nil || len(all.Strangers) != 0 {
		t.Errorf("after the user was allowed: %+v, %v", all, err)
	}
}

// Whatever is lost or copied, nobody gets in whom it does not allow.
func TestLossesAndCopiesAllowNothing(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(t *testing.T, b *bench){
		"the marker is deleted": func(t *testing.T, b *bench) { b.do(t, "DEL", "ringfence") },
		"what is allowed is deleted": func(t *testing.T, b *bench) {
			b.do(t, "DEL", "ringfence:.allowed")
		},
		"a copy comes from elsewhere": func(t *testing.T, b *bench) {
			b.do(t, "HSET", "ringfence:.allowed", "app orders", "another epoch")
		},
		"a copy from before comes by SWAPDB": func(t *testing.T, b *bench) {
			b.copyTo(t, 1, append(ownKeys, "ringfence:.allowed")...)
			if n, err := b.store.Forbid(t.Context(), "app"); n != 1 || err != nil {
				t.Fatal(n, err)
			}
			b.do(t, "SWAPDB", 0, 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := authorized(t, "app")
			b.allow(t, "app", "orders")
			guard := openWith(t, b.server, redismarks.Options{Coordinated: true})
			b.store.Close()
			b.store = guard.store
			must.Succeed(t, b.claims(t, "app", claim(5)))
			lose(t, b)
			if err := b.claims(t, "app", claim(6)); !errors.Is(err, fence.ErrNotAuthorized) {
				t.Errorf("after the loss: %v", err)
			}
			must.Succeed(t, redismarks.Install(t.Context(), b.server.URL()))
			if err := b.claims(t, "app", claim(6)); !errors.Is(err, fence.ErrNotAuthorized) {
				t.Errorf("after another installation: %v", err)
			}
			b.allow(t, "app", "orders")
			if err := b.claims(t, "app", claim(6)); err != nil {
				t.Errorf("allowed again: %v", err)
			}
		})
	}
}
