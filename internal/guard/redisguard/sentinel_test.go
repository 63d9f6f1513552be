package redisguard

import (
	"context"
	"strings"
	"testing"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/poll"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// watched is a pair of servers that three Sentinels watch.
type watched struct {
	*switched
	sentinels []*servers.Sentinel
}

func withSentinels(t *testing.T, config string) *watched {
	t.Helper()
	s := &watched{switched: pair(t)}
	for range 3 {
		s.sentinels = append(s.sentinels, serverstest.Sentinel(t, servers.SentinelOptions{
			Name: "orders", Primary: s.first, Quorum: 2, DownAfter: time.Second, Config: config,
		}))
	}
	return s
}

// url is that of a guard.
func (s *watched) url(options string) string {
	var hosts []string
	for _, each := range s.sentinels {
		hosts = append(hosts, each.Addr())
	}
	return "redis+sentinel://" + strings.Join(hosts, ",") + "/orders" + options
}

func (s *watched) guard(with setup) *guarded {
	s.t.Helper()
	with.url = s.url("")
	return before(s.t, s.first, with)
}

// ready waits until every Sentinel knows the replica and the other two.
func (s *watched) ready() {
	s.t.Helper()
	for _, each := range s.sentinels {
		s.await(each, "the others", func(m map[string]string) bool {
			return m["num-slaves"] == "1" && m["num-other-sentinels"] == "2"
		})
	}
}

// await waits until what a Sentinel says of the primary is as it should be.
func (s *watched) await(at *servers.Sentinel, what string, is func(map[string]string) bool) {
	s.t.Helper()
	c := driver.NewSentinelClient(&driver.Options{Addr: at.Addr()})
	defer c.Close()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	var m map[string]string
	var err error
	if !poll.Until(time.Minute, func() bool {
		m, err = c.Master(ctx, "orders").Result()
		return err == nil && is(m)
	}) {
		s.t.Fatalf("the Sentinel never says %s: %v, %v", what, m, err)
	}
}

func (s *watched) names(server *servers.Redis) func(map[string]string) bool {
	return func(m map[string]string) bool { return server.Addr() == m["ip"]+":"+m["port"] }
}

// In a planned failover the former primary remains one for some seconds. A guard that stayed there
// would go on to acknowledge what is lost.
func TestSessionsEndWhenSentinelsNameAnotherPrimary(t *testing.T) {
	t.Parallel()
	s := withSentinels(t, "")
	g := s.guard(setup{})
	old := g.fenced(5)
	old.says("SET written 5\r\n", "+OK")
	s.ready()

	slow := s.sentinels[2]
	must.Succeed(t, slow.Pause())
	c := driver.NewSentinelClient(&driver.Options{Addr: s.sentinels[0].Addr()})
	defer c.Close()
	must.Succeed(t, c.Failover(t.Context(), "orders").Err())
	old.reply() // ended, with or without a word
	if role := s.do(s.first, "ROLE").([]any)[0]; role != "master" {
		t.Errorf("the session ended only when its server was demoted: it is %s", role)
	}

	newer := g.claimAgain(6, time.Minute, "")
	newer.says("SET written 6\r\n", "+OK")
	if got := s.do(s.second, "GET written"); got != "6" {
		t.Errorf("the new primary has %q", got)
	}
	// One that was away still names the former one for a moment.
	must.Succeed(t, slow.Resume())
	s.await(slow, "who is the primary now", s.names(s.second))
	newer.says("SET written 7\r\n", "+OK")
	old = g.raw()
	old.send("FENCE orders 5\r\n")
	if got := old.reply(); !strings.HasPrefix(got, "-STALETOKEN") {
		t.Errorf("the older leader got %q", got)
	}
}

func TestAGuardFollowsSentinelsWhenThePrimaryIsKilled(t *testing.T) {
	t.Parallel()
	s := withSentinels(t, "")
	g := s.guard(setup{})
	g.fenced(5)
	s.ready()
	must.Succeed(t, s.first.Kill())
	g.claimAgain(6, time.Minute, "").says("SET written 6\r\n", "+OK")
	if got := s.do(s.second, "GET written"); got != "6" {
		t.Errorf("the new primary has %q", got)
	}
}

// Without Sentinels nothing is promoted, so the server that they named last is the primary.
func TestAGuardGoesOnWithoutSentinels(t *testing.T) {
	t.Parallel()
	s := withSentinels(t, "")
	g := s.guard(setup{})
	old := g.fenced(5)
	for i, each := range s.sentinels {
		must.Succeed(t, []func() error{each.Kill, each.Pause, each.Pause}[i]())
	}
	newer := g.claimAgain(6, time.Minute, "")
	newer.says("SET written 6\r\n", "+OK")
	if got := old.reply(); got != "" && !strings.HasPrefix(got, "-STALETOKEN") {
		t.Errorf("the older leader got %q", got)
	}
}

func TestSentinelsMayAskForALogin(t *testing.T) {
	t.Parallel()
	s := withSentinels(t, "requirepass s3cret\nsentinel sentinel-pass s3cret\n")
	raise := func(options string) error {
		return redismarks.Raiser{URL: s.url(options), Authority: marks.Unverified{}}.
			Raise(t.Context(), fence.Claim{Resource: "orders", Token: 7, Issuer: elector.Unverified})
	}
	must.Succeed(t, raise("?sentinel_password=s3cret"))
	if err := raise("?sentinel_password=wrong"); err == nil || strings.Contains(err.Error(), "wrong") {
		t.Errorf("with a wrong password: %v", err)
	}
	if err := raise(""); err == nil || !strings.Contains(err.Error(), "NOAUTH") {
		t.Errorf("without a password: %v", err)
	}
}
