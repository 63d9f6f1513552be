package redisguard

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/poll"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// switched is a pair of servers behind one address, which moves as in a failover. Connections to
// the former primary stay open.
type switched struct {
	t             *testing.T
	first, second *servers.Redis
	address       *servers.Relay
}

func pair(t *testing.T, args ...string) *switched {
	t.Helper()
	o := servers.RedisOptions{Args: args}
	s := &switched{t: t, first: serverstest.Redis(t, o), second: serverstest.Redis(t, o)}
	must.Succeed(t, redismarks.Install(t.Context(), s.first.URL()))
	s.address = serverstest.NewRelay(t, s.first.Addr())
	s.follow(s.second, s.first)
	return s
}

// guard starts a guard that reaches the servers by their common address.
func (s *switched) guard(with setup) *guarded {
	s.t.Helper()
	with.upstream = s.address.Addr()
	return before(s.t, s.first, with)
}

// another starts a guard that reaches only one server.
func (s *switched) another(server *servers.Redis, with setup) *guarded {
	s.t.Helper()
	return before(s.t, server, with)
}

// do runs a command on a server.
func (s *switched) do(server *servers.Redis, command string) any {
	s.t.Helper()
	db := driverTo(s.t, server.Addr(), nil)
	defer db.Close()
	v, err := db.Do(s.t.Context(), anys(command)...).Result()
	if err != nil {
		s.t.Fatalf("%s: %v", command, err)
	}
	return v
}

// follow makes a server a replica, and returns when it has the other one's data.
func (s *switched) follow(replica, of *servers.Redis) {
	s.t.Helper()
	s.do(replica, "REPLICAOF "+strings.Replace(of.Addr(), ":", " ", 1))
	db := driverTo(s.t, replica.Addr(), nil)
	defer db.Close()
	var info string
	if !poll.Until(30*time.Second, func() bool {
		info = db.Info(s.t.Context(), "replication").Val()
		return strings.Contains(info, "master_link_status:up")
	}) {
		s.t.Fatalf("no replication: %s", info)
	}
}

// fail promotes the second server. The address leads there from now on.
func (s *switched) fail() {
	s.t.Helper()
	s.do(s.second, "REPLICAOF NO ONE")
	s.address.Lead(s.second.Addr())
}

// back makes the first server a replica of the second one, and then the primary again.
func (s *switched) back() {
	s.t.Helper()
	s.follow(s.first, s.second)
	s.promoteFirst()
}

func (s *switched) promoteFirst() {
	s.t.Helper()
	s.do(s.first, "REPLICAOF NO ONE")
	s.address.Lead(s.first.Addr())
}

// noStale fails the test if an older leader's write has got over the newer one's.
func (s *switched) noStale(client *raw) {
	s.t.Helper()
	_, _ = client.conn.Write([]byte("SET written 5\r\n")) // it may have ended
	if got := client.reply(); got != "" && !strings.HasPrefix(got, "-STALETOKEN") {
		s.t.Errorf("the older leader got %q", got)
	}
	if got := s.do(s.first, "GET written"); got != "6" {
		s.t.Errorf("the newer leader's value is now %q", got)
	}
}

// coordinated is a guard whose coordinator confirms every claim.
func coordinated() setup {
	return setup{
		Options: Options{Admission: &marks.Admission{Authority: trusting{}}},
		store:   redismarks.Options{Coordinated: true},
	}
}

func uncoordinated() setup { return setup{} }

// A connection at a former primary stays open. When that server is promoted again, with the newer
// leader's mark replicated, the older leader must not write over the newer one. The guard has to
// hear of the demotion before (docs/threats.md, What asynchronous replication leaves).
func TestNoOlderSessionOutlivesAFailoverThereAndBack(t *testing.T) {
	t.Parallel()
	for name, with := range map[string]func() setup{
		"without a coordinator": uncoordinated, "with a coordinator": coordinated,
	} {
		t.Run(name, func(t *testing.T) {
			s := pair(t)
			old := s.guard(with()).fenced(5)
			old.send("SET written 5\r\n")
			old.expect("+OK")
			s.fail()
			newer := s.another(s.second, with()).fenced(6)
			newer.send("SET written 6\r\n")
			newer.expect("+OK")
			s.follow(s.first, s.second)
			old.reply() // the session is ended, with or without a word
			s.promoteFirst()
			s.noStale(old)
		})
	}
}

// The session ends when its server is demoted, although no newer leader has come.
func TestASessionEndsWithTheRoleOfItsServer(t *testing.T) {
	t.Parallel()
	s := pair(t)
	g := s.guard(setup{})
	old := g.fenced(5)
	s.fail()
	s.follow(s.first, s.second)
	old.expect("")
	g.AwaitMetric("ringfence_connections_ended_total", "demoted", 1)
	again := g.fenced(5)
	again.send("SET written 5\r\n")
	again.expect("+OK")
	if got := s.do(s.second, "GET written"); got != "5" {
		t.Errorf("the new primary has %q", got)
	}
}

// paused starts a guard whose watch goes through a relay of its own. The test can hold that, and
// let the guard believe that it has stood still.
func (s *switched) paused(with setup) (g *guarded, watch *servers.Relay, standStill func()) {
	s.t.Helper()
	watch = serverstest.NewRelay(s.t, s.first.Addr())
	store, err := redismarks.Open(s.t.Context(), "redis://"+watch.Addr(), with.store)
	must.Succeed(s.t, err)
	s.t.Cleanup(store.Close)
	var p *Protocol
	with.Watch = func(ctx context.Context) (Watch, error) { return store.Watch(ctx) }
	with.change = func(of *Protocol) { p = of }
	g = s.guard(with)
	return g, watch, func() {
		p.primaries.mu.Lock()
		defer p.primaries.mu.Unlock()
		for at := range p.primaries.all {
			at.stoodStill(at.now())
		}
	}
}

// While the guard is stopped, the servers change places twice. When it goes on, the client's next
// write is there before the news of the demotion.
func TestAGuardThatHasStoodStillPassesNothingBeforeItHasLooked(t *testing.T) {
	t.Parallel()
	s := pair(t)
	g, watch, standStill := s.paused(setup{})
	old := g.fenced(5)
	watch.Hold()
	s.fail()
	newer := s.another(s.second, setup{}).fenced(6)
	newer.send("SET written 6\r\n")
	newer.expect("+OK")
	s.back()
	standStill()
	old.send("SET written 5\r\n")
	for !watch.Holds() { // the guard asks
	}
	watch.Pass()
	s.noStale(old)
}

// Nothing has happened while the guard stood still: what the client has sent passes.
func TestAGuardThatHasStoodStillGoesOn(t *testing.T) {
	t.Parallel()
	s := pair(t)
	g, watch, standStill := s.paused(setup{})
	old := g.fenced(5)
	watch.Hold()
	standStill()
	old.send("SET written 5\r\n")
	for !watch.Holds() {
	}
	watch.Pass()
	old.expect("+OK")
}

// Redis runs a script for longer than a proof counts. That must cost no session, and a client can
// end the script through the guard.
func TestABusyServerCostsNoSession(t *testing.T) {
	t.Parallel()
	s := pair(t, "--busy-reply-threshold", "20")
	g, _, standStill := s.paused(setup{})
	busy, other := g.fenced(5), g.fenced(5)
	busy.send(array("EVAL", "while true do end", "0"))
	g.busy()
	standStill()
	other.send("SCRIPT KILL\r\n")
	other.expect("+OK")
	busy.expect("-ERR")
	standStill()
	other.send("SET written 5\r\n")
	other.expect("+OK")
}

// What breaks the watch alone ends no session: another one finds the same server.
func TestABrokenWatchIsReplaced(t *testing.T) {
	t.Parallel()
	s := pair(t)
	g, watch, _ := s.paused(setup{})
	old := g.fenced(5)
	accepted := watch.Accepted()
	watch.Drop()
	for watch.Accepted() < accepted+2 {
	}
	old.send("SET written 5\r\n")
	old.expect("+OK")
	s.fail()
	s.follow(s.first, s.second)
	old.expect("")
}

// trusting confirms every claim, as a coordinator does whose leader it is.
type trusting struct{ marks.Unverified }

func (trusting) Confirm(_ context.Context, c fence.Claim, _ marks.Mark) (fence.Claim, error) {
	return c, nil
}
