package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/zookeeper/internal/ensemble"
	"github.com/ringfence/ringfence/fence/zookeeper/zookeepertest"
	"github.com/ringfence/ringfence/internal/test/electiontest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// owners returns how many candidates below a root each session has, as the server says.
func owners(t *testing.T, server, root string) map[string]int {
	t.Helper()
	owners := map[string]int{}
	session := ""
	for line := range strings.Lines(fourLetters(t, server, "dump")) {
		switch line = strings.TrimSpace(line); {
		case strings.HasPrefix(line, "0x"):
			session = strings.TrimSuffix(line, ":")
		case strings.HasPrefix(line, root+"/elections/"):
			owners[session]++
		}
	}
	return owners
}

func TestAProcessLeadsAThousandElectionsOverOneSession(t *testing.T) {
	t.Parallel()
	const elections = 1000
	ensemble, root := serverstest.SharedZooKeeper(t).Addr(), zookeepertest.FreshRoot()
	r := zookeepertest.NewRelay(t, ensemble)
	c := openFor(t, "zk://"+r.Addr()+root, time.Minute)
	terms := make([]*fence.Term, elections)
	var all sync.WaitGroup
	for i := range elections {
		all.Go(func() {
			var err error
			resource := fence.Resource(fmt.Sprintf("r%d", i))
			if terms[i], err = c.Campaign(t.Context(), resource, "host"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	owned := owners(t, ensemble, root)
	for _, n := range owned {
		if len(owned) != 1 || n != elections {
			t.Errorf("the server has these sessions and candidates: %v", owned)
		}
	}
	if len(owned) == 0 || r.Accepted() != 2 { // the client's own session is the other
		t.Errorf("%d owners, %d connections", len(owned), r.Accepted())
	}
	confirmAll := func(what string) {
		t.Helper()
		first := make([]time.Time, elections)
		for i, term := range terms {
			first[i] = term.Deadline()
		}
		c.campaigns.Current().BeatNow()
		zookeepertest.Eventually(t, what, func() bool {
			for i, term := range terms {
				if term.State() != fence.Active || !term.Deadline().After(first[i]) {
					return false
				}
			}
			return true
		})
	}
	confirmAll("a beat confirms all terms")
	r.Requested()
	confirmAll("another beat confirms all terms")
	made := 0
	for _, n := range r.Requested() {
		made += n
	}
	if made > 10 {
		t.Errorf("to confirm %d terms took %d requests", elections, made)
	}

	r.Requested()
	r.Drop()
	confirmAll("all terms are confirmed on the next connection")
	if read := r.Count(zookeepertest.GetData); read > elections+elections/10 {
		t.Errorf("after a reconnection %d terms were read in %d requests", elections, read)
	}
	if owned := owners(t, ensemble, root); len(owned) != 1 {
		t.Errorf("after a reconnection the sessions are %v", owned)
	}
	c.Close()
	zookeepertest.Eventually(t, "no candidate is left", func() bool {
		return len(owners(t, ensemble, root)) == 0
	})
}

// leadingCandidate returns the only candidate of a session.
func leadingCandidate(t *testing.T, c *Coordinator) *candidate {
	t.Helper()
	all := c.campaigns.Current().Enrolled()
	if len(all) != 1 {
		t.Fatalf("%d candidates are enrolled", len(all))
	}
	return all[0]
}

// The notice of the deletion arrives before the reply to the sync.
func TestABeatConfirmsNoTermWithAWatchThatHasFired(t *testing.T) {
	t.Parallel()
	ensemble, root := serverstest.SharedZooKeeper(t).Addr(), zookeepertest.FreshRoot()
	admin := zookeepertest.Connect(t, ensemble)
	r := zookeepertest.NewRelay(t, ensemble)
	c := openFor(t, "zk://"+r.Addr()+root, time.Minute)
	term := electiontest.Win(t, c, "orders", "a")
	e := leadingCandidate(t, c)
	before := term.Deadline()
	e.s.BeatNow()
	zookeepertest.Eventually(t, "a beat confirms the term", func() bool {
		return term.Deadline().After(before)
	})
	r.Requested()
	r.Set(func() { r.Stopped = true })
	e.s.BeatNow()
	zookeepertest.Eventually(t, "a sync is on its way", r.HoldsRequest)
	before = term.Deadline()
	zookeepertest.DeleteCandidate(t, admin, e.dir, term.Token())
	e.mu.Lock()
	own := e.own
	e.mu.Unlock()
	zookeepertest.Eventually(t, "the notice has arrived", func() bool { return fired(own) })
	r.Set(func() { r.StopAfter = 1; r.Stopped = false }) // the sync alone
	zookeepertest.Eventually(t, "the next beat is on its way", r.HoldsRequest)
	if made := r.Requested(); made[zookeepertest.Sync] != 1 || len(made) != 1 {
		t.Fatalf("the requests %v passed, so this test proves nothing", made)
	}
	if now := term.Deadline(); now != before {
		t.Errorf("the sync has confirmed a term whose candidate is gone: its deadline moved by %v",
			now.Sub(before))
	}
	r.Pass()
	ends(t, term, 10*time.Second, fence.ErrDeposed)
}

// The server answers everything else, so the connection lasts.
func TestAServerThatAnswersNoSyncConfirmsNothingAndIsReplaced(t *testing.T) {
	t.Parallel()
	r := zookeepertest.NewRelay(t, serverstest.SharedZooKeeper(t).Addr())
	c := openFor(t, "zk://"+r.Addr()+zookeepertest.FreshRoot(), 5*time.Second)
	term := electiontest.Win(t, c, "orders", "a")
	r.Set(func() { r.NoSyncs = true })
	reaches(t, term, fence.Suspended)
	ends(t, term, 30*time.Second, fence.ErrExpired)
	r.Set(func() { r.NoSyncs = false })
	confirmedAgain(t, electiontest.Win(t, c, "orders", "a"))
}

// As on a machine that is too busy to read all candidates in time.
func TestATermThatCannotBeReadInTimeCostsNoOtherTerm(t *testing.T) {
	t.Parallel()
	r := zookeepertest.NewRelay(t, serverstest.SharedZooKeeper(t).Addr())
	c := openFor(t, "zk://"+r.Addr()+zookeepertest.FreshRoot(), 10*time.Second)
	unread, term := electiontest.Win(t, c, "unread", "a"), electiontest.Win(t, c, "orders", "a")
	r.Set(func() { r.Unread = "/unread/" })
	ends(t, unread, time.Minute, fence.ErrExpired)
	confirmedAgain(t, term)
}

// As from a server that filters notices by the ACL.
func TestATermIsLostAlthoughTheNoticeOfItsDeletionIsLost(t *testing.T) {
	t.Parallel()
	ensemble, root := serverstest.SharedZooKeeper(t).Addr(), zookeepertest.FreshRoot()
	r := zookeepertest.NewRelay(t, ensemble)
	const timeout = 10 * time.Second
	c := openFor(t, "zk://"+r.Addr()+root, timeout)
	term := electiontest.Win(t, c, "orders", "a")
	r.Set(func() { r.Mute = true })
	deleted := time.Now()
	zookeepertest.DeleteCandidate(t, zookeepertest.Connect(t, ensemble), c.dir("orders"), term.Token())
	ends(t, term, 60*time.Second, fence.ErrDeposed)
	if took := time.Since(deleted); took > 2*timeout {
		t.Errorf("the term was lost after %v", took)
	}
}

// A create takes effect, and its campaign is cancelled before there is a reply. The session lives
// on for another term.
func TestACreateWithoutAReplyHoldsUpNobody(t *testing.T) {
	t.Parallel()
	for name, loseReply := range map[string]bool{
		"the reply is lost": true, "the reply is late": false,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ensemble, root := serverstest.SharedZooKeeper(t).Addr(), zookeepertest.FreshRoot()
			admin := zookeepertest.Connect(t, ensemble)
			r := zookeepertest.NewRelay(t, ensemble)
			c := openFor(t, "zk://"+r.Addr()+root, time.Minute)
			other := openFor(t, "zk://"+ensemble+root, time.Minute)
			if err := electiontest.Win(t, other, "orders", "x").Resign(t.Context()); err != nil {
				// makes the election
				t.Fatal(err)
			}
			keeper := electiontest.Win(t, c, "stock", "a")
			ctx, cancel := context.WithCancel(t.Context())
			r.Set(func() { r.CutReply = true })
			ended := make(chan error, 1)
			go func() {
				_, err := c.Campaign(ctx, "orders", "late")
				ended <- err
			}()
			zookeepertest.Eventually(t, "the create has taken effect", func() bool {
				names, _, err := admin.Children(c.dir("orders"))
				return err == nil && len(names) == 1
			})
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("the campaign ended with %v", err)
			}
			if loseReply {
				r.Drop()
			}
			r.Pass()
			electiontest.Win(t, other, "orders", "b")
			if keeper.State() == fence.Lost {
				t.Errorf("the other term is lost: %v", context.Cause(keeper.Context()))
			}
			s := c.campaigns.Current()
			zookeepertest.Eventually(t, "nothing is left to look for", func() bool {
				s.mu.Lock()
				defer s.mu.Unlock()
				return len(s.strays) == 0
			})
		})
	}
}

// The znode appears only after the session has looked for it once.
func TestACreateThatHappensLateHoldsUpNobody(t *testing.T) {
	t.Parallel()
	ensembleAddr, root := serverstest.SharedZooKeeper(t).Addr(), zookeepertest.FreshRoot()
	c := openFor(t, "zk://"+ensembleAddr+root, 4*time.Second)
	electiontest.Win(t, c, "orders", "x").Resign(t.Context()) // makes the election
	s, err := c.campaigns.Session(t.Context())
	must.Succeed(t, err)
	e := s.Candidate("orders", "late")
	e.mu.Lock()
	e.unknown++
	e.mu.Unlock()
	e.Leave()
	zookeepertest.Eventually(t, "the session has looked for it", func() bool {
		return !e.nextLook().IsZero()
	})
	for range 2 { // another one than counted does no harm
		_, err = ensemble.Do(t.Context(), s.zk, func(conn *zk.Conn) (string, error) {
			return conn.Create(path.Join(e.dir, e.id.namePrefix()),
				encode(entryData{Holder: "late"}), zk.FlagEphemeralSequential,
				s.zk.ACL)
		})
		must.Succeed(t, err)
	}
	electiontest.Win(t, c, "orders", "b")
}

func TestAnAcknowledgementEndsWithItsCandidateNotWithTheSession(t *testing.T) {
	t.Parallel()
	ensemble, root := serverstest.SharedZooKeeper(t).Addr(), zookeepertest.FreshRoot()
	c := openFor(t, "zk://"+ensemble+root, time.Minute)
	admin := zookeepertest.Connect(t, ensemble)
	at := path.Join(c.dir("orders"), leaderName)
	term := electiontest.Win(t, c, "orders", "a")
	must.Succeed(t, term.Acknowledge(t.Context()))
	must.Succeed(t, term.Resign(t.Context()))
	if there, _, err := admin.Exists(at); there || err != nil {
		t.Errorf("after the resignation there is an acknowledgement: %v, %v", there, err)
	}

	deposed := electiontest.Win(t, c, "orders", "b")
	must.Succeed(t, deposed.Acknowledge(t.Context()))
	zookeepertest.DeleteCandidate(t, admin, c.dir("orders"), deposed.Token())
	// in the session that has made the acknowledgement that is left
	next := electiontest.Win(t, c, "orders", "c")
	queue, err := c.Candidates(t.Context(), "orders")
	if err != nil || len(queue) != 1 || queue[0].Ready {
		t.Errorf("before its acknowledgement the queue is %+v, %v", queue, err)
	}
	must.Succeed(t, next.Acknowledge(t.Context()))
	queue, err = c.Candidates(t.Context(), "orders")
	if err != nil || len(queue) != 1 || !queue[0].Ready || queue[0].Token != next.Token() {
		t.Errorf("after its acknowledgement the queue is %+v, %v", queue, err)
	}
	_ = deposed.Resign(t.Context())
	queue, err = c.Candidates(t.Context(), "orders")
	if err != nil || len(queue) != 1 || !queue[0].Ready {
		t.Errorf("a late resignation has left the queue %+v, %v", queue, err)
	}
}
