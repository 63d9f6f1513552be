package redismarks_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// removes calls Uninstall, and checks that it was blocked for a reason, or deleted everything if
// there is none.
func (b *bench) removes(t *testing.T, o marks.Removing, reason string) marks.Removal {
	t.Helper()
	o.Drop = true
	r, err := redismarks.Uninstall(t.Context(), b.server.URL(), o)
	must.Succeed(t, err)
	keys, err := b.admin.Keys(t.Context(), "ringfence*").Result()
	keys = slices.DeleteFunc(keys, func(k string) bool { return k == "ringfenced" })
	must.Succeed(t, err)
	switch why := strings.Join(r.Blocked, "; "); {
	case reason == "" && (why != "" || len(keys) > 0):
		t.Errorf("blocked: %q; keys that are left: %q", why, keys)
	case reason != "" && (!strings.Contains(why, reason) || len(keys) == 0):
		t.Errorf("blocked: %q, want %q; keys that are left: %q", why, reason, keys)
	}
	return r
}

func TestRedisIsNotRemovedWhileASessionOrAGuardIsThere(t *testing.T) {
	t.Parallel()
	b := open(t, serverstest.Redis(t, servers.RedisOptions{}))
	session := b.admit(t, marks.Unverified{}, 5)
	b.removes(t, marks.Removing{}, "a guard is connected from")
	b.store.Close()
	b.removes(t, marks.Removing{}, "a session is open: client ")
	must.Succeed(t, session.Write(t.Context(), "x"))
	session.Close()
	b.do2(t, "SET", "ringfence:.checkpoint:t", "{}")
	b.do2(t, "SADD", "ringfence:.checkpoints", "t")
	b.removes(t, marks.Removing{}, "--with-data")
	r := b.removes(t, marks.Removing{WithData: true}, "")
	if !slices.Equal(r.Data, []string{"1 checkpoints of tasks (keys ringfence:.checkpoint:…)"}) {
		t.Errorf("%+v", r)
	}
	if n, err := b.admin.Exists(t.Context(), "written").Result(); err != nil || n != 1 {
		t.Errorf("the user's own keys: %d, %v", n, err)
	}
	if r := b.removes(t, marks.Removing{}, ""); !r.Nothing() {
		t.Errorf("after it: %+v", r)
	}
}

// Nobody knows whose session lives after a loss of the registry, so everybody is ended before.
func TestALostRegistryIsRemovedAfterEveryConnectionHasEnded(t *testing.T) {
	t.Parallel()
	b := open(t, serverstest.Redis(t, servers.RedisOptions{}))
	session := b.admit(t, marks.Unverified{}, 5)
	b.store.Close()
	b.do2(t, "HDEL", "ringfence", "ended")
	r, err := redismarks.Uninstall(t.Context(), b.server.URL(), marks.Removing{})
	if err != nil || !strings.Contains(strings.Join(r.Drops, "; "), "every client connection") {
		t.Fatalf("%+v, %v", r, err)
	}
	b.do2(t, "HDEL", "ringfence:orders", "server") // its record counts no more
	b.removes(t, marks.Removing{}, "")
	if err := session.Write(t.Context(), "x"); err == nil {
		t.Error("the session has outlived the removal")
	}
}

func TestWhatIsLeftInRedisIsNamedAndRemoved(t *testing.T) {
	t.Parallel()
	b := open(t, serverstest.Redis(t, servers.RedisOptions{}))
	b.store.Close()
	_, err := redismarks.LoadFunctions(t.Context(), b.server.URL())
	must.Succeed(t, err)
	for _, command := range [][]any{
		{"SET", "ringfence:.former", "x"}, {"SET", "ringfenced", "x"},
		{"SET", "ringfence:orders", "x"}, {"MOVE", "ringfence:orders", 3},
	} {
		b.do2(t, command...)
	}
	r := b.removes(t, marks.Removing{}, "")
	for _, want := range []string{
		"key ringfence:.former, which this version does not use",
		"key ringfence:orders in database 3, which counts for nothing", "the library ringfence of " +
			"functions",
	} {
		if !slices.Contains(r.Drops, want) {
			t.Errorf("%q is not in %q", want, r.Drops)
		}
	}
	functions, err := b.admin.Do(t.Context(), "FUNCTION", "LIST").Slice()
	keys, _ := b.admin.Keys(t.Context(), "*").Result()
	info, _ := b.admin.Info(t.Context(), "keyspace").Result()
	if err != nil || len(functions) > 0 || !slices.Equal(keys, []string{"ringfenced"}) ||
		strings.Contains(info, "db3") {
		t.Errorf("left: %q, %q, %s, %v", functions, keys, info, err)
	}
}

// The rights of a guard's user are not enough, and the error says so before anything is changed.
func TestAGuardsUserRemovesNothing(t *testing.T) {
	t.Parallel()
	b := open(t, serverstest.Redis(t, servers.RedisOptions{}))
	aclUser(t, b, redismarks.ACL("keeper", "secret"))
	_, err := redismarks.Uninstall(t.Context(), as(b.server, "keeper", "secret"),
		marks.Removing{Drop: true})
	if err == nil || !strings.Contains(err.Error(), "nothing was changed") ||
		!strings.Contains(err.Error(), "administrator") {
		t.Error(err)
	}
}

// A session that was admitted after the look is in the records when the script deletes them.
func TestTheScriptThatDeletesFindsANewSession(t *testing.T) {
	t.Parallel()
	b := open(t, serverstest.Redis(t, servers.RedisOptions{}))
	session := b.admit(t, marks.Unverified{}, 5)
	defer session.Close()
	if err := b.store.Drop(t.Context()); err == nil || !strings.Contains(err.Error(), "admitted "+
		"just now") {
		t.Error(err)
	}
	if verdict, err := b.store.DropBlindly(t.Context()); err != nil || verdict != "remains" {
		t.Errorf("the script itself: %s, %v", verdict, err)
	}
}
