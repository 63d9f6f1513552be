package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/fence/zookeeper/zookeepertest"
	"github.com/ringfence/ringfence/internal/test/electiontest"
	"github.com/ringfence/ringfence/internal/test/journaltest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// relayed opens documents behind a relay, and the elections beside it.
func relayed(
	t *testing.T, timeout time.Duration,
) (*zookeepertest.Relay, documents.Store, *Coordinator) {
	t.Helper()
	server, root := serverstest.SharedZooKeeper(t).Addr(), zookeepertest.FreshRoot()
	r := zookeepertest.NewRelay(t, server)
	return r, openFor(t, "zk://"+r.Addr()+root, timeout).Documents(),
		openFor(t, "zk://"+server+root, 50*time.Second)
}

// The leader is deposed after it was confirmed and before the read.
func TestAReadUnderATermIsAnsweredOnlyIfItLedDuringTheRead(t *testing.T) {
	t.Parallel()
	r, slow, c := relayed(t, 50*time.Second)
	old := electiontest.Win(t, c, "orders", "a")
	_, err := electiontest.Under(slow, old.Claim()).Put(t.Context(), 0, "old")
	must.Succeed(t, err)
	r.Set(func() { r.Between = true })
	read := make(chan error, 1)
	go func() {
		all, err := electiontest.Under(slow, old.Claim()).Get(t.Context())
		if err == nil {
			err = fmt.Errorf("read %+v", all)
		}
		read <- err
	}()
	zookeepertest.Eventually(t, "the relay holds the read", r.HoldsRequest)
	if gone, err := c.Depose(t.Context(), "orders", old.Token()); !gone || err != nil {
		t.Fatal(gone, err)
	}
	next := electiontest.Win(t, c, "orders", "b")
	if _, err := electiontest.Under(c.Documents(), next.Claim()).Put(t.Context(), 1,
		"next"); err != nil {
		t.Fatal(err)
	}
	r.Pass()
	if err := <-read; !errors.Is(err, fence.ErrStale) {
		t.Error(err)
	}
}

func TestAWriteIsOneRequestAndReadsBeginWithASync(t *testing.T) {
	t.Parallel()
	const sync, multi = 9, 14
	r, docs, c := relayed(t, 50*time.Second)
	u := electiontest.Under(docs, electiontest.Win(t, c, "orders", "a").Claim())
	enough := errors.New("enough")
	r.Requested()
	for what, read := range map[string]func() error{
		"get":   func() error { _, err := docs.Get(t.Context(), documents.At("f/a")); return err },
		"names": func() error { _, err := docs.Names(t.Context(), "f"); return err },
		"watch": func() error {
			return docs.Watch(t.Context(), "f/a", func(documents.Document) error { return enough })
		},
	} {
		if err := read(); err != nil && err != enough {
			t.Errorf("%s: %v", what, err)
		}
		if got := r.Requested(); got[sync] != 1 {
			t.Errorf("%s made the requests %v", what, got)
		}
	}
	_, err := u.Put(t.Context(), 0, "x")
	must.Succeed(t, err)
	if got := r.Requested(); got[sync] == 0 {
		t.Errorf("a first look at a claim made the requests %v", got)
	}
	_, err = u.Put(t.Context(), 1, "y")
	must.Succeed(t, err)
	if got := r.Requested(); len(got) != 1 || got[multi] != 1 {
		t.Errorf("a write made the requests %v", got)
	}
}

// A watch sees changes in spite of lost notices, broken connections and ended sessions.
func TestAWatchSeesEveryChange(t *testing.T) {
	t.Parallel()
	r, watched, c := relayed(t, time.Second)
	u := electiontest.Under(c.Documents(), electiontest.Win(t, c, "orders", "a").Claim())
	seen := make(chan string, 10)
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() {
		err := watched.Watch(ctx, "f/a", func(d documents.Document) error {
			if d.Exists() {
				seen <- string(d.Data)
			}
			return nil
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the watch ended with %v", err)
		}
	})
	defer work.Wait()
	defer cancel()
	version := int64(0)
	change := func(data string) {
		t.Helper()
		var err error
		if version, err = u.Put(t.Context(), version, data); err != nil {
			t.Fatal(err)
		}
	}
	sees := func(want string) {
		t.Helper()
		select {
		case got := <-seen:
			if got != want {
				t.Errorf("saw %s, want %s", got, want)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("did not see %s", want)
		}
	}
	change("made")
	sees("made")
	r.Set(func() { r.Mute = true })
	change("notice lost")
	sees("notice lost")
	r.Set(func() { r.Mute = false })
	r.Hold()
	r.Drop()
	change("cut off")
	r.Pass()
	sees("cut off")
	r.ExpireSessions()
	change("session ended")
	sees("session ended")
}

// The connection stays open, and the server is silent, or answers only pings.
func TestAChangeWithoutAnAnswerInTimeIsUnknown(t *testing.T) {
	t.Parallel()
	r, docs, c := relayed(t, 6*time.Second)
	u := electiontest.Under(docs, electiontest.Win(t, c, "orders", "a").Claim())
	_, err := u.Put(t.Context(), 0, "x")
	must.Succeed(t, err)
	r.Set(func() { r.Swallow = true })
	if _, err := u.Put(t.Context(), 1, "y"); !errors.Is(err, documents.ErrUnknown) {
		t.Errorf("while only pings are answered: %v", err)
	}
	r.Set(func() { r.Swallow = false })
	if _, err := u.Put(t.Context(), 1, "y"); err != nil {
		t.Error(err)
	}
	r.Hold()
	enough := errors.New("enough")
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, enough)
	defer cancel()
	if _, err := u.Put(ctx, 2, "z"); !errors.Is(err, documents.ErrUnknown) || !errors.Is(err, enough) {
		t.Errorf("until the caller's deadline: %v", err)
	}
	r.Pass()
}

// The server breaks the connection. That must not count as a change, and the error names the
// setting.
func TestAChangeAboveTheServersLimitIsUnknown(t *testing.T) {
	t.Parallel()
	z := serverstest.ZooKeeper(t, servers.ZooKeeperOptions{Java: []string{"-Djute.maxbuffer=200000"}})
	c := openFor(t, "zk://"+z.Addr(), 20*time.Second)
	u := electiontest.Under(c.Documents(), electiontest.Win(t, c, "orders", "a").Claim())
	_, err := u.Put(t.Context(), 0, strings.Repeat("x", 300_000))
	if !errors.Is(err, documents.ErrUnknown) || !strings.Contains(fmt.Sprint(err), "jute.maxbuffer") {
		t.Errorf("got %v", err)
	}
	if _, err := u.Put(t.Context(), 0, "x"); err != nil {
		t.Error(err)
	}
}

// Neither of two candidates with one token leads, nor does a persistent znode.
func TestCraftedZnodesInAnElectionDoNotLead(t *testing.T) {
	t.Parallel()
	server, root := serverstest.SharedZooKeeper(t).Addr(), zookeepertest.FreshRoot()
	c := openFor(t, "zk://"+server+root, 50*time.Second)
	old := electiontest.Win(t, c, "orders", "a")
	if err := electiontest.Win(t, c, "stock", "a").Resign(t.Context()); err != nil {
		// makes the election
		t.Fatal(err)
	}
	admin := zookeepertest.Connect(t, server)
	_, token := zookeepertest.CraftTwins(t, admin, root+"/elections/orders")
	_, stat, err := admin.Get(zookeepertest.Craft(t, admin, root+"/elections/stock", "crafted",
		"0000000000",
		zk.FlagPersistent))
	must.Succeed(t, err)
	must.Succeed(t, old.Resign(t.Context()))
	twin, forged := old.Claim(), old.Claim()
	twin.Token, twin.Candidate = token, ""
	forged.Resource, forged.Token, forged.Candidate = "stock", fence.Token(stat.Czxid), ""
	for claim, want := range map[fence.Claim]error{twin: errShared, forged: fence.ErrStale} {
		u := electiontest.Under(c.Documents(), claim)
		if _, err := u.Get(t.Context()); !errors.Is(err, want) {
			t.Errorf("get under %s: %v", claim, err)
		}
		if _, err := u.Put(t.Context(), 0, "x"); !errors.Is(err, want) {
			t.Errorf("change under %s: %v", claim, err)
		}
	}
}

func TestAClaimFromBeforeTheIssuerWasRenewedReadsAndChangesNothing(t *testing.T) {
	t.Parallel()
	url := "zk://" + serverstest.SharedZooKeeper(t).Addr() + zookeepertest.FreshRoot()
	c := openFor(t, url, 50*time.Second)
	u := electiontest.Under(openFor(t, url, 50*time.Second).Documents(),
		electiontest.Win(t, c, "orders", "a").Claim())
	if now, err := c.RenewIssuer(t.Context()); err != nil || now == u.Claim.Issuer {
		t.Fatalf("issuer %q became %q, %v", u.Claim.Issuer, now, err)
	}
	if _, err := u.Put(t.Context(), 0, "x"); !errors.Is(err, fence.ErrOtherIssuer) {
		t.Errorf("change: %v", err)
	}
	if _, err := u.Get(t.Context()); !errors.Is(err, fence.ErrOtherIssuer) {
		t.Errorf("get: %v", err)
	}
}

// For five ticks a server without its ensemble still answers some requests. A server that believes
// that it leads the ensemble answers a sync; a follower answers reads. A machine that stalls may be
// too late for these ticks, and tries again.
func TestAServerWithoutItsEnsembleConfirmsNobody(t *testing.T) {
	t.Parallel()
	z := serverstest.ZooKeeper(t, servers.ZooKeeperOptions{Nodes: 3, TickTime: time.Second})
	for _, mode := range []string{"leader", "follower"} {
		var err error
		for range 5 {
			if err = confirmsNobody(t, z, mode); err == nil {
				break
			}
			t.Logf("too late: %v", err)
		}
		if err != nil {
			t.Errorf("%s: %v; this test proves nothing", mode, err)
		}
	}
}

// confirmsNobody asks a server for a document of a leader, while the others are paused. It returns
// an error if the server answers nobody any more.
func confirmsNobody(t *testing.T, z *servers.ZooKeeper, mode string) error {
	root := zookeepertest.FreshRoot()
	c := openFor(t, "zk://"+z.Addr()+root, 50*time.Second)
	claim := electiontest.Win(t, c, "orders", "a").Claim()
	_, err := electiontest.Under(c.Documents(), claim).Put(t.Context(), 0, "x")
	must.Succeed(t, err)
	alone := inMode(t, z, mode)
	u := electiontest.Under(openFor(t, "zk://"+alone.Addr()+root, 50*time.Second).Documents(), claim)
	if _, err := u.Get(t.Context()); err != nil { // it knows that the claim leads
		t.Fatal(err)
	}
	admin := zookeepertest.Connect(t, alone.Addr())
	for _, n := range z.Nodes {
		if n != alone {
			must.Succeed(t, n.Pause())
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	read := make(chan error, 1)
	go func() { _, err := u.Get(ctx); read <- err }()
	var answers error
	if mode == "leader" {
		_, answers = admin.Sync(root)
	}
	if answers == nil {
		_, _, answers = admin.Get(root + "/documents/f/a")
	}
	if err := <-read; err == nil || errors.Is(err, fence.ErrStale) {
		t.Errorf("%s: get returned %v", mode, err)
	}
	must.Succeed(t, z.Resume())
	return answers
}

func TestCheckpointsOutliveAServerThatIsKilled(t *testing.T) {
	t.Parallel()
	z := serverstest.ZooKeeper(t, servers.ZooKeeperOptions{})
	open := func(t testing.TB) documents.Coordinator {
		return openFor(t, "zk://"+z.Addr(), time.Minute)
	}
	journaltest.ThroughKills(t, open, 2, 10, func(int, func(string)) {
		must.Succeed(t, errors.Join(z.Kill(), z.Start(t.Context())))
	})
}
