package pgguard

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/marks"
)

// coordinator is an Observer with answers that the test sets.
type coordinator struct {
	mu     sync.Mutex
	issuer fence.Issuer
	queue  map[fence.Resource][]elector.Candidate
	down   error
}

// elects makes these tokens the queue of a resource, the leader first.
func (c *coordinator) elects(r fence.Resource, tokens ...fence.Token) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queue == nil {
		c.queue = map[fence.Resource][]elector.Candidate{}
	}
	c.queue[r] = nil
	for _, t := range tokens {
		c.queue[r] = append(c.queue[r], elector.Candidate{
			Token: t, Holder: fmt.Sprintf("host-%d", t),
		})
	}
}

// becomes sets the issuer and the error of every answer.
func (c *coordinator) becomes(issuer fence.Issuer, down error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.issuer, c.down = issuer, down
}

func (c *coordinator) Issuer(context.Context) (fence.Issuer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.issuer, c.down
}

func (c *coordinator) Candidates(_ context.Context, r fence.Resource) ([]elector.Candidate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.queue[r], c.down
}

func (c *coordinator) Leaders(
	_ context.Context, rs ...fence.Resource,
) (fence.Issuer, []elector.Candidate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	leaders := make([]elector.Candidate, len(rs))
	for i, r := range rs {
		if len(c.queue[r]) > 0 {
			leaders[i] = c.queue[r][0]
		}
	}
	return c.issuer, leaders, c.down
}

func (c *coordinator) Watch(
	context.Context, fence.Resource, func([]elector.Candidate) error,
) error {
	return errors.New("these tests watch nothing")
}

// elected starts a guard with a coordinator, where the leader of orders has token 7.
func elected(t *testing.T) (*guarded, *coordinator) {
	t.Helper()
	c := &coordinator{issuer: "zk:one"}
	c.elects("orders", 7, 9)
	return fencedBy(t, setup{
		Options: Options{Admission: &marks.Admission{Authority: marks.Elected{Observer: c}}},
	}), c
}

// refusedWith returns the refusal that a client got; the test fails unless it has message, detail
// and hint.
func refusedWith(t *testing.T, err error, code string) *pgconn.PgError {
	t.Helper()
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != code || pg.Severity != "FATAL" || pg.Message == "" ||
		pg.Detail == "" || pg.Hint == "" {
		t.Fatalf("got %+v, want a whole refusal %s", err, code)
	}
	return pg
}

func TestOnlyTheLeadersTokenRaisesTheMark(t *testing.T) {
	t.Parallel()
	g, c := elected(t)
	for _, test := range []struct {
		token fence.Token
		says  string
	}{
		{8, "the leader of \"orders\" is host-7 with token 7"}, // nobody has this token
		{9, "host-9 waits in place 2"},                         // a candidate that does not lead
		{6, "token 7"},                                         // a former leader's
		{1<<63 - 1, "token 7"},
	} {
		_, err := g.dial(test.token)
		if pg := refusedWith(t, err, "RF007"); !strings.Contains(pg.Detail, test.says) {
			t.Errorf("token %d: %q does not say %q", test.token, pg.Detail, test.says)
		}
		if n := g.markOf("orders"); n != 0 {
			t.Fatalf("token %d raised the mark to %d", test.token, n)
		}
	}
	g.exec(g.open(7), "insert into ledger (token) values (7)")
	if holder := g.count("select count(*) from ringfence_private.mark where holder = 'host-7' " +
		"and issuer = 'zk:one'"); holder != 1 {
		t.Error("the mark does not name the coordinator's holder and issuer")
	}
	_, err := g.dial(6)
	refusedWith(t, err, "RF001")
	c.elects("orders")
	_, err = g.dial(9)
	refusedWith(t, err, "RF007")
}

func TestWhenTheCoordinatorDoesNotAnswerTheMarkStaysAndItsSessionsLive(t *testing.T) {
	t.Parallel()
	g, c := elected(t)
	c.becomes("", errors.New("connection refused"))
	_, err := g.dial(7)
	if pg := refusedWith(t, err, "RF011"); !strings.Contains(pg.Detail, "connection refused") {
		t.Errorf("the refusal does not say why: %q", pg.Detail)
	}
	c.becomes("zk:one", nil)
	old := g.open(7)
	c.becomes("", errors.New("connection refused"))
	c.elects("orders", 9)
	_, err = g.dial(9)
	refusedWith(t, err, "RF011")
	g.exec(old, "insert into ledger (token) values (7)")
	_, err = g.dial(7) // a rebuilt coordinator might have issued the mark's number again
	refusedWith(t, err, "RF011")
	c.becomes("zk:one", nil)
	g.exec(g.open(9), "insert into ledger (token) values (9)")
}

func TestATokenOfAnotherIssuerWaitsForAnAdoption(t *testing.T) {
	t.Parallel()
	g, c := elected(t)
	old := g.open(7)
	c.becomes("zk:rebuilt", nil)
	c.elects("orders", 3)
	for _, token := range []fence.Token{3, 7, 8} {
		_, err := g.dial(token)
		if pg := refusedWith(t, err, "RF004"); !strings.Contains(pg.Hint, "guard adopt orders") {
			t.Errorf("the hint is %q", pg.Hint)
		}
	}
	g.exec(old, "insert into ledger (token) values (7)")
	rebuilt := fence.Claim{Resource: "orders", Issuer: "zk:rebuilt"}
	before, err := g.store.Adopt(t.Context(), rebuilt, "operator")
	if err != nil || before.Token != 7 || before.Issuer != "zk:one" {
		t.Fatalf("adopt: %+v, %v", before, err)
	}
	if _, err := old.Exec(t.Context(), "insert into ledger (token) values (7)"); err == nil {
		t.Error("a session of the old issuer lives after the adoption")
	}
	_, err = g.dial(8)
	refusedWith(t, err, "RF007")
	g.exec(g.open(3), "insert into ledger (token) values (3)")
}

func TestEveryStepOfATakeoverIsTimed(t *testing.T) {
	t.Parallel()
	finished := make(chan marks.Event, 10)
	g := fencedBy(t, setup{notify: func(e marks.Event) {
		if e.Kind == marks.Finished {
			finished <- e
		}
	}})
	g.open(5)
	<-finished
	g.open(7)
	e := <-finished
	if e.Claim.Token != 7 || e.Err != nil || e.Took <= 0 {
		t.Errorf("%+v", e)
	}
	for _, step := range []marks.Step{
		marks.StepIdentify, marks.StepIssuer, marks.StepRegister, marks.StepRaise, marks.StepRevoke,
		marks.StepSlot,
	} {
		if e.Steps[step] <= 0 {
			t.Errorf("%s was not timed: %v", step, e.Steps)
		}
	}
}
