package etcd

import (
	"maps"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/fence/etcd/etcdtest"
	"github.com/ringfence/ringfence/internal/test/electiontest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
)

// watcher is a process with everything that it can watch: its own term, an election that it waits
// in, one that it looks at, a document and a folder.
func watcher(t *testing.T, server *servers.Etcd) (term *fence.Term) {
	t.Helper()
	url := "etcd://" + etcdtest.Login + server.Addr()
	electiontest.Win(t, openWith(t, url, time.Minute, nil), "elsewhere", "b")
	c := openWith(t, url, 4*time.Second, nil)
	term = electiontest.Win(t, c, "orders", "a")
	go func() { _, _ = c.Campaign(t.Context(), "elsewhere", "a") }()
	go func() { _ = c.Watch(t.Context(), "orders", func([]elector.Candidate) error { return nil }) }()
	go func() {
		_ = c.Documents().Watch(t.Context(), "folder/one", func(documents.Document) error { return nil })
	}()
	go func() {
		_ = c.Documents().WatchNames(t.Context(), "folder", func([]string) error { return nil })
	}()
	electiontest.Eventually(t, "it waits", func() bool {
		queue, err := c.Candidates(t.Context(), "elsewhere")
		return err == nil && len(queue) == 2
	})
	return term
}

// beats waits for heartbeats for some time, and returns the requests of it.
func beats(t *testing.T, server *servers.Etcd, term *fence.Term, d time.Duration) map[string]int {
	t.Helper()
	before := requests(t, server)
	from := term.Deadline()
	electiontest.Eventually(t, "heartbeats", func() bool { return term.Deadline().Sub(from) >= d })
	after := requests(t, server)
	for method, n := range before {
		after[method] -= n
	}
	maps.DeleteFunc(after, func(_ string, n int) bool { return n == 0 })
	return after
}

func requests(t *testing.T, server *servers.Etcd) map[string]int {
	t.Helper()
	all, err := server.Members[0].Requests(t.Context())
	must.Succeed(t, err)
	return all
}

func sum(requests map[string]int) (n int) {
	for count := range maps.Values(requests) {
		n += count
	}
	return n
}

// A login takes some 70 ms of etcd's processor.
func TestAHeartbeatIsNoLogin(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"simple": nil, "JWT": etcdtest.SignedTokens(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := etcdtest.WithUsers(t, args...)
			got := beats(t, server, watcher(t, server), 8*time.Second)
			if got["Authenticate"] > 0 || got["LeaseKeepAlive"] < 5 {
				t.Errorf("got %v", got)
			}
		})
	}
}

// etcd refuses every JWT that is older than a change of any user or role, also for a new watch on a
// stream that is older.
func TestAChangeOfARoleCostsOneLogin(t *testing.T) {
	t.Parallel()
	server := etcdtest.WithUsers(t, etcdtest.SignedTokens(t)...)
	term := watcher(t, server)
	for _, role := range []string{"one", "two"} {
		_, err := etcdtest.Root(t, server.Addr()).RoleAdd(t.Context(), role)
		must.Succeed(t, err)
		got := beats(t, server, term, 8*time.Second)
		if got["Authenticate"] > 1+1 || sum(got) > 80 { // one login may be root's
			t.Errorf("got %v", got)
		}
	}
}

// A watch of its own term, on which a leader sends nothing, keeps a stream open whose token has
// expired.
func TestAStreamIsNotKeptForLongerThanItsToken(t *testing.T) {
	t.Parallel()
	server := etcdtest.WithUsers(t, etcdtest.ShortTokens...)
	term := watcher(t, server)
	got := beats(t, server, term, 8*time.Second)
	if got["Authenticate"] > 20 || got["Txn"]+got["Watch"]+got["Range"] > 80 {
		t.Errorf("got %v", got)
	}
}
