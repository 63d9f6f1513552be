package redismarks_test

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/markstest"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/poll"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// as returns a server's URL for a user.
func as(server *servers.Redis, user, password string) string {
	u := url.URL{
		Scheme: "redis", Host: server.Addr(), Path: "/0", User: url.UserPassword(user, password),
	}
	return u.String()
}

// aclUser runs an ACL SETUSER command.
func aclUser(t testing.TB, b *bench, rule string) {
	t.Helper()
	var args []any
	for _, word := range strings.Fields(rule) {
		args = append(args, word)
	}
	if err := b.admin.Do(t.Context(), args...).Err(); err != nil {
		t.Fatalf("%s: %v", rule, err)
	}
}

// The rule that guard install --print prints is enough for the whole contract.
func TestTheGuardsUserNeedsNoMoreThanItsACL(t *testing.T) {
	t.Parallel()
	markstest.Run(t, func(t testing.TB) markstest.Fixture {
		b := open(t, redisWith(t))
		aclUser(t, b, redismarks.ACL("keeper", "secret"))
		b.do2(t, "DEL", "ringfence")
		must.Succeed(t, redismarks.Install(t.Context(), as(b.server, "keeper", "secret")))
		s, err := redismarks.Open(t.Context(), as(b.server, "keeper", "secret"), redismarks.Options{})
		must.Succeed(t, err)
		t.Cleanup(s.Close)
		b.store.Close()
		b.store, b.Store, b.Admin = s, s, s
		b.Restart = nil // ACL users are not kept
		return b.Fixture
	})
}

func (b *bench) do2(t testing.TB, args ...any) {
	t.Helper()
	must.Succeed(t, b.admin.Do(t.Context(), args...).Err())
}

func TestMissingRightsAreNamed(t *testing.T) {
	t.Parallel()
	b := open(t, serverstest.Redis(t, servers.RedisOptions{}))
	for _, right := range []string{"client|kill", "client|list", "info", "xread", "evalsha",
		"hset", "hlen", "time"} {
		aclUser(t, b, redismarks.ACL("keeper", "secret")+" -"+right)
		s, err := redismarks.Open(t.Context(), as(b.server, "keeper", "secret"), redismarks.Options{})
		if err == nil {
			s.Close()
		}
		var setup *fence.SetupError
		spaced := strings.ReplaceAll(right, "|", " ")
		if !errors.As(err, &setup) ||
			!strings.Contains(err.Error(), spaced) && !strings.Contains(err.Error(), right) {
			t.Errorf("without %s: %v", right, err)
		}
	}
	if _, err := redismarks.Open(t.Context(), as(b.server, "keeper", "wrong"),
		redismarks.Options{}); err == nil || strings.Contains(err.Error(), "wrong@") {
		t.Errorf("with a wrong password: %v", err)
	}
}

// A right that is revoked later keeps newcomers out, and the error names the session that could not
// be ended.
func TestSessionsThatCannotBeEndedKeepNewcomersOut(t *testing.T) {
	t.Parallel()
	b := open(t, serverstest.Redis(t, servers.RedisOptions{}))
	aclUser(t, b, redismarks.ACL("keeper", "secret"))
	s, err := redismarks.Open(t.Context(), as(b.server, "keeper", "secret"), redismarks.Options{})
	must.Succeed(t, err)
	t.Cleanup(s.Close)
	b.store = s
	old := b.admit(t, marks.Unverified{}, 5)
	aclUser(t, b, "ACL SETUSER keeper -client|kill")
	fresh := marks.SessionID{ID: 1 << 40, Run: old.s.Run}
	err = b.admission(marks.Unverified{}).Admit(t.Context(), fresh, marks.Present(claim(6)))
	if !errors.Is(err, fence.ErrUnrevoked) || !strings.Contains(err.Error(), fmt.Sprint(old.s.ID)) {
		t.Fatalf("admit: %v", err)
	}
	must.Succeed(t, old.Write(t.Context(), "x"))
}

func TestServersThatCannotBeGuardedAreRefused(t *testing.T) {
	t.Parallel()
	server := serverstest.Redis(t, servers.RedisOptions{Args: []string{"--cluster-enabled", "yes"}})
	s, err := redismarks.Open(t.Context(), server.URL(), redismarks.Options{})
	if err == nil {
		s.Close()
	}
	var setup *fence.SetupError
	if !errors.As(err, &setup) || !strings.Contains(err.Error(), "cluster mode") {
		t.Error(err)
	}
}

// It may be promoted.
func TestAReplicaIsNotReady(t *testing.T) {
	t.Parallel()
	host, port, _ := strings.Cut(serverstest.SharedRedis(t).Addr(), ":")
	replica := serverstest.Redis(t, servers.RedisOptions{Args: []string{"--replicaof", host, port}})
	s, err := redismarks.Open(t.Context(), replica.URL(), redismarks.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	err = s.Probe(t.Context())
	if fence.Permanent(err) || err == nil || !strings.Contains(err.Error(), "is a replica") {
		t.Error(err)
	}
}

func TestABadURLIsRefusedWithoutItsPassword(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		"", "localhost", "postgres://user:secret@host", "redis://user:secret@host/zero",
		"redis://user:secret@ho st/0", "redis://user:se/secret@host",
	} {
		_, err := redismarks.Open(t.Context(), bad, redismarks.Options{})
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestAStoreOpensWhileItsServerIsDownAndIsNotReady(t *testing.T) {
	t.Parallel()
	server := serverstest.Redis(t, servers.RedisOptions{})
	must.Succeed(t, server.Kill())
	s, err := redismarks.Open(t.Context(), server.URL(), redismarks.Options{})
	must.Succeed(t, err)
	defer s.Close()
	if err := s.Probe(t.Context()); err == nil {
		t.Error("the store is ready without its server")
	}
	must.Succeed(t, server.Start(t.Context()))
	if !poll.Until(patience, func() bool { // the driver dials once a second
		return errors.Is(s.Probe(t.Context()), fence.ErrNotInstalled)
	}) {
		t.Fatal("the store did not reconnect")
	}
	must.Succeed(t, redismarks.Install(t.Context(), server.URL()))
	if err := s.Probe(t.Context()); err != nil {
		t.Errorf("probe: %v", err)
	}
}

// The client's own connection may lead to another server than the control connection.
func TestAClientOfAnotherServerIsNotIdentified(t *testing.T) {
	t.Parallel()
	here := open(t, serverstest.Redis(t, servers.RedisOptions{}))
	there := open(t, serverstest.Redis(t, servers.RedisOptions{}))
	mine, other := here.session(t), there.session(t)
	defer mine.Close()
	defer other.Close()
	if _, err := here.store.Identify(t.Context(), mine.s.ID, "not the name"); err == nil {
		t.Error("a client without the nonce was identified")
	}
	for id := range int64(30) {
		if _, err := here.store.Identify(t.Context(), id,
			fmt.Sprintf("nonce-%d", other.s.ID)); err == nil && id != mine.s.ID {
			t.Errorf("client %d of another server was identified", id)
		}
	}
	_, err := here.store.Register(t.Context(), other.s, []fence.Claim{claim(1)})
	if err == nil {
		t.Error("a session of another server was registered")
	}
}

func TestARaiserRaisesDirectlyInRedis(t *testing.T) {
	t.Parallel()
	b := open(t, serverstest.Redis(t, servers.RedisOptions{}))
	old := b.admit(t, marks.Unverified{}, 5)
	r := redismarks.NewRaiser(b.server.URL())
	must.Succeed(t, r.Raise(t.Context(), claim(6)))
	if err := old.Write(t.Context(), "deposed"); err == nil {
		t.Error("the older session is still alive")
	}
	if err := r.Raise(t.Context(), claim(5)); !errors.Is(err, fence.ErrStale) {
		t.Errorf("an older token: %v", err)
	}
	b.do(t, "FLUSHALL")
	if err := r.Raise(t.Context(), claim(7)); !errors.Is(err, fence.ErrNotInstalled) {
		t.Errorf("without a marker: %v", err)
	}
}
