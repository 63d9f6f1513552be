package zookeeper

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/zookeeper/internal/ensemble"
	"github.com/ringfence/ringfence/fence/zookeeper/zookeepertest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// history is an ensemble that changes step by step; each step is one transaction.
type history struct {
	t      *testing.T
	admin  *zk.Conn
	root   string
	issuer fence.Issuer
	at     map[string]string // path of each candidate's znode, by its holder
}

// newHistory makes an ensemble with the candidates a and b for orders, and c and d for invoices.
func newHistory(t *testing.T, admin *zk.Conn, c *Coordinator) *history {
	t.Helper()
	h := &history{t: t, admin: admin, root: c.client.Path, at: map[string]string{}}
	var err error
	if h.issuer, err = c.Issuer(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, r := range []fence.Resource{"orders", "invoices"} {
		_, err := ensemble.Ask(t.Context(), c.client,
			func(ctx context.Context, s *ensemble.Session) (any, error) {
				return nil, s.Ensure(ctx, c.dir(r))
			})
		must.Succeed(t, err)
	}
	enters("orders", "a")(h)
	enters("orders", "b")(h)
	enters("invoices", "c")(h)
	enters("invoices", "d")(h)
	return h
}

// step is a change, and the leaders of orders and invoices after it.
type step struct {
	change  func(h *history)
	leaders string
}

func enters(r fence.Resource, holder string) func(*history) {
	return func(h *history) {
		h.t.Helper()
		dir := path.Join(h.root, "elections", string(r))
		h.at[holder] = zookeepertest.Craft(h.t, h.admin, dir, holder, "0000000000", zk.FlagEphemeral)
	}
}

func leaves(holder string) func(*history) {
	return func(h *history) {
		h.t.Helper()
		must.Succeed(h.t, h.admin.Delete(h.at[holder], -1))
	}
}

func issuerRenewed(h *history) {
	h.t.Helper()
	id := zookeepertest.NewUUID()
	_, err := h.admin.Set(h.root+"/issuer", []byte(id), -1)
	must.Succeed(h.t, err)
	h.issuer = fence.Issuer("zk:" + id)
}

func issuerMadeAnew(h *history) { h.issuer = makeIssuerAnew(h.t, h.admin, h.root) }

// question calls Leaders. The coordinator has made the same call so many steps before, or (below 0)
// no call yet.
type question struct {
	resources []fence.Resource
	before    int
	steps     []step
}

// right returns the correct answer while these lead, in the form of ask.
func (q question) right(issuer fence.Issuer, leaders string) string {
	return answerOf(issuer, strings.Fields(leaders)[:len(q.resources)]...)
}

func (q question) ask(t *testing.T, c *Coordinator) string {
	issuer, leaders, err := c.Leaders(t.Context(), q.resources...)
	if err != nil {
		return err.Error()
	}
	var holders []string
	for _, l := range leaders {
		holders = append(holders, l.Holder)
	}
	return answerOf(issuer, holders...)
}

// Leaders is stopped after each of its requests in turn, and meanwhile everything changes.
func TestTheAnswerOfLeadersHeldAtOneMoment(t *testing.T) {
	t.Parallel()
	for name, steps := range map[string][]step{
		"each leader in turn, then the issuer": {
			{leaves("a"), "b c"}, {leaves("c"), "b d"}, {issuerRenewed, "b d"},
		},
		"the issuer, then each leader": {
			{issuerRenewed, "a c"}, {leaves("c"), "a d"}, {leaves("a"), "b d"},
		},
		"an issuer created again, then each leader": {
			{issuerMadeAnew, "a c"}, {leaves("a"), "b c"}, {leaves("c"), "b d"},
		},
		"all candidates, after others have come": {
			{enters("orders", "e"), "a c"}, {leaves("b"), "a c"}, {leaves("a"), "e c"},
			{enters("invoices", "f"), "e c"}, {leaves("d"), "e c"}, {leaves("c"), "e f"},
		},
	} {
		for _, before := range []int{-1, 0, 1, 3} {
			for _, resources := range [][]fence.Resource{{"orders"}, {"orders", "invoices"}} {
				q := question{resources, before, steps}
				t.Run(fmt.Sprintf("%s, %v, %s", name, resources, askedBefore(before)), q.run)
			}
		}
	}
}

func askedBefore(steps int) string {
	if steps < 0 {
		return "without a cache"
	}
	return fmt.Sprintf("called %d steps before", steps)
}

func (q question) run(t *testing.T) {
	t.Parallel()
	admin := zookeepertest.Connect(t, serverstest.SharedZooKeeper(t).Addr())
	stops := 0
	for q.stoppedAfter(t, admin, stops) {
		stops++
	}
	least := 1
	if q.before < 0 {
		least = 3 + 3*len(q.resources) // each election is a list and two candidates
	}
	if stops < least {
		t.Errorf("it was stopped %d times; want %d at least", stops, least)
	}
}

// stoppedAfter calls Leaders and makes the remaining steps after the n-th request. It returns false
// if there are at most n requests.
func (q question) stoppedAfter(t *testing.T, admin *zk.Conn, n int) bool {
	t.Helper()
	r := zookeepertest.NewRelay(t, serverstest.SharedZooKeeper(t).Addr())
	c := openFor(t, "zk://"+r.Addr()+zookeepertest.FreshRoot(), 50*time.Second)
	defer c.Close()
	h := newHistory(t, admin, c)
	held := []string{q.right(h.issuer, "a c")}
	if q.before >= 0 {
		if got := q.ask(t, c); got != held[0] {
			t.Fatalf("the answer is %s; want %s", got, held[0])
		}
	}
	for _, s := range q.steps[:max(0, q.before)] {
		s.change(h)
		held[0] = q.right(h.issuer, s.leaders)
	}
	r.Set(func() { r.StopAfter, r.Stopped = n, n == 0 })
	told := make(chan string, 1)
	go func() { told <- q.ask(t, c) }()
	got := firstOf(t, r, told)
	stopped := got == ""
	if stopped {
		for _, s := range q.steps[max(0, q.before):] {
			s.change(h)
			held = append(held, q.right(h.issuer, s.leaders))
		}
		r.Pass()
		got = <-told
	}
	if !slices.Contains(held, got) {
		t.Errorf("stopped after %d requests, it returned %s, which never held; what held was %s",
			n, got, held)
	}
	return stopped
}

// firstOf waits for the answer. It returns none if the relay stops a request first.
func firstOf(t *testing.T, r *zookeepertest.Relay, told chan string) (answer string) {
	t.Helper()
	zookeepertest.Eventually(t, "it has answered, or is stopped", func() bool {
		select {
		case answer = <-told:
			return true
		default:
		}
		return r.HoldsRequest()
	})
	return answer
}
