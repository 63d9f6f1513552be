package sqlterms

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/test/must"
)

// take in each way that a holder can come to a term.
var ways = map[string]string{"campaign": "campaign('orders', $1)", "take": "take('orders', $1)"}

func TestTheFirstTermBeginsWithItsFirstCall(t *testing.T) {
	t.Parallel()
	for name, call := range ways {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			c := s.connect("app")
			first := s.one(c, call, "host-1")
			if !first.Ready || first.Pass == nil || first.Leader != "host-1" || first.Ending != 0 {
				t.Fatalf("%+v", first)
			}
			must.Report(t, s.writes(c, first.Pass))
			again := s.one(c, call, "host-1") // as after an answer that was lost
			if again.Token != first.Token || *again.Pass != *first.Pass || !again.Ready {
				t.Errorf("%+v, then %+v", first, again)
			}
		})
	}
}

func TestATakeOverEndsOlderTransactionsAndRefusesLaterOnes(t *testing.T) {
	t.Parallel()
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			s := newStage(t)
			old, idle, c := s.connect("app"), s.connect("app"), s.connect("app")
			first := s.ready(old, "take('orders', 'host-1', 1)")
			inside, err := s.begin(old, level, first.Pass)
			must.Succeed(t, err)
			// has a snapshot, and has not entered
			early, err := idle.BeginTx(s.ctx, pgx.TxOptions{IsoLevel: level})
			must.Succeed(t, err)
			_, err = early.Exec(s.ctx, "select count(*) from written")
			must.Succeed(t, err)

			second := s.one(c, "take('orders', 'host-2', 2)")
			if second.Ready || second.Ending != 1 || second.Token <= first.Token {
				t.Fatalf("%+v", second)
			}
			s.fails(s.writes(s.connect("app"), first.Pass), "RF001")
			s.fails(s.writes(s.connect("app"), second.Pass), "RF012") // not ready
			second = s.ready(c, "take('orders', 'host-2', 2)")
			if _, err := inside.Exec(s.ctx, "insert into written (token) values (1)"); err == nil {
				t.Error("the older transaction has written")
			}
			if _, err := early.Exec(s.ctx, "select ringfence.enter($1)", first.Pass); err == nil {
				t.Error("an older snapshot has entered")
			}
			must.Report(t, s.writes(c, second.Pass))
		})
	}
}

func TestALateAttemptDeposesNobody(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	c := s.connect("app")
	s.ready(c, "take('orders', 'worker-1', 1)")
	second := s.ready(c, "take('orders', 'worker-2', 2)")
	for _, late := range []string{"take('orders', 'worker-1', 1)", "take('orders', 'worker-3', 2)"} {
		_, err := s.call(c, late)
		s.fails(err, "RF001")
	}
	must.Succeed(t, s.writes(c, second.Pass))
}

func TestALeaseThatEndsLetsTheNextOneIn(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	c := s.connect("app")
	first := s.ready(c, "campaign('orders', 'host-1', '1 second')")
	if now := s.one(c, "campaign('orders', 'host-2', '1 second')"); now.Ready || now.Pass != nil ||
		now.Leader != "host-1" {
		t.Fatalf("beside a leader: %+v", now)
	}
	// renews its own lease as long as it waits
	second := s.ready(c, "campaign('orders', 'host-2', '1 minute')")
	s.fails(s.writes(c, first.Pass), "RF001")
	must.Report(t, s.writes(c, second.Pass))
	back := s.one(c, "campaign('orders', 'host-1', '1 second')")
	if back.Ready || back.Token <= second.Token || back.Leader != "host-2" {
		t.Errorf("%+v", back)
	}
	var left bool
	if err := c.QueryRow(s.ctx, "select ringfence.leave($1)", second.Pass).Scan(&left); err != nil ||
		!left {
		t.Errorf("leave: %v, %v", left, err)
	}
	start := time.Now()
	s.ready(c, "campaign('orders', 'host-1', '1 minute')")
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("after the leader has left it took %s", took)
	}
}

// A call that raises, and one that would find nobody inside, in one transaction: until that has
// committed, others enter under the older token.
func TestATermDoesNotBeginInTheTransactionThatRaisesItsMark(t *testing.T) {
	t.Parallel()
	for name, nested := range map[string]string{"plain": "", "subtransaction": "savepoint s"} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			c, old := s.connect("app"), s.connect("app")
			first := s.ready(c, "take('orders', 'host-1', 1)")
			tx, err := c.Begin(s.ctx)
			must.Succeed(t, err)
			_, err = tx.Exec(s.ctx, nested)
			must.Succeed(t, err)
			for range 3 {
				if now := s.one(tx, "take('orders', 'host-2', 2)"); now.Ready {
					t.Fatalf("%+v", now)
				}
			}
			inside, err := s.begin(old, "", first.Pass)
			if err != nil {
				t.Fatalf("nobody has taken it yet: %v", err)
			}
			must.Succeed(t, tx.Commit(s.ctx))
			if now := s.one(c, "take('orders', 'host-2', 2)"); now.Ready || now.Ending != 1 {
				t.Errorf("%+v", now)
			}
			s.ready(c, "take('orders', 'host-2', 2)")
			if err := inside.Commit(s.ctx); err == nil {
				t.Error("the older transaction has committed")
			}
		})
	}
}

func TestATransactionThatIsRolledBackHasTakenNothing(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	c := s.connect("app")
	first := s.ready(c, "take('orders', 'host-1', 1)")
	tx, err := c.Begin(s.ctx)
	must.Succeed(t, err)
	second := s.one(tx, "take('orders', 'host-2', 2)")
	must.Succeed(t, tx.Rollback(s.ctx))
	must.Report(t, s.writes(c, first.Pass))
	s.fails(s.writes(c, second.Pass), "RF012")
}

func TestAnOldSnapshotCannotTake(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	c := s.connect("app")
	tx, err := c.BeginTx(s.ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	must.Succeed(t, err)
	if _, err := s.call(tx, "take('orders', 'host-1')"); err == nil {
		t.Error("it is taken")
	}
}

func TestABroughtTokenNeedsARowInTheList(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	c, admin := s.connect("app"), s.connect("postgres")
	_, err := s.call(c, "bring('orders', 7, 'shedlock', 'host-1')")
	s.fails(err, "RF010")
	s.exec(admin, "select ringfence.allow('app', 'orders')")
	seven := s.ready(c, "bring('orders', 7, 'shedlock', 'host-1')")
	must.Report(t, s.writes(c, seven.Pass))
	nine := s.ready(c, "bring('orders', 9, 'shedlock', 'host-2')")
	s.fails(s.writes(c, seven.Pass), "RF001")
	must.Report(t, s.writes(c, nine.Pass))
	_, err = s.call(c, "bring('orders', 8, 'shedlock', 'host-3')")
	s.fails(err, "RF001")
	_, err = s.call(c, "bring('orders', 10, 'redisson', 'host-3')")
	s.fails(err, "RF004")
	if now := s.one(c, "campaign(array['orders'], 'host-4')"); now.Ready || now.Refused == nil {
		t.Errorf("an elected leader beside a token that was brought: %+v", now)
	}
}

func TestWhoIsNotNamedGetsNoToken(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	c := s.connect("stranger")
	for _, call := range []string{
		"campaign('orders', 'host-1')", "campaign(array['orders'], 'host-1')", "take('orders', 'host-1')",
		"bring('orders', 7, 'x', 'host-1')",
		"stand(array['orders'], 'host-1', '1 minute')", "take_term('orders', 'host-1', 1)",
		"bring_term('orders', 7, 'x', 'host-1')",
		"begin_term(null::ringfence.term, 'host-1', '')", "leave('orders 1 x y')",
	} {
		_, err := c.Exec(s.ctx, "select * from ringfence."+call)
		s.fails(err, "42501")
	}
	_, err := s.connect("app").Exec(s.ctx, "select * from "+
		"ringfence.begin_term(null::ringfence.term, 'host-1', '')")
	s.fails(err, "42501")
}

func TestWrongInputChangesNothing(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	c := s.connect("app")
	for call, code := range map[string]string{
		"campaign('Orders', 'host-1')": "RF003", "campaign('orders', '')": "22023",
		"campaign('orders', null)":             "22023",
		"campaign('orders', 'host-1', '1 ms')": "22023", "campaign('orders', 'host-1', null)": "22023",
		"take(null, 'host-1')": "RF003", "bring('orders', 0, 'x', 'h')": "RF010",
	} {
		_, err := s.call(c, call)
		s.fails(err, code)
	}
	for _, pass := range []*string{
		nil, new(""), new("orders 7"), new("orders x y z"), new("orders 99999999999999999999 y z"),
		new("orders 9223372036854775808 y z"),
	} {
		s.fails(s.writes(c, pass), "RF003")
		_, err := c.Exec(s.ctx, "select ringfence.leave($1)", pass)
		s.fails(err, "RF003")
	}
	s.fails(s.writes(c, new("orders 9223372036854775807 y z")), "RF012")
}

// A program that has lost its pass repeats its call, long after its term has begun.
func TestARepeatedCallFindsATermThatHasBegun(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	c, admin := s.connect("app"), s.connect("postgres")
	s.ready(c, "take('orders', 'host-1', 1)")
	// In half of all transaction ids nobody can tell any more whether the raise has committed.
	s.exec(admin, "create or replace function ringfence.is_committed(p_xid xid) returns boolean "+
		"language sql as 'select false'")
	s.ready(c, "take('orders', 'host-1', 1)")
}

// A guard, or leader run, has raised the mark for a candidate that a program does not know.
func TestATokenIsBroughtThatTheMarkHas(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	c, admin := s.connect("app"), s.connect("postgres")
	s.exec(admin, "select ringfence.allow('app', 'orders')")
	s.exec(admin, "select ringfence.begin_term(row('orders', 7, 'zookeeper:a', null, false, 0, "+
		"'host-1', null, null)::ringfence.term, 'host-1', 'its znode')")
	must.Succeed(t, s.writes(c, s.ready(c, "bring('orders', 7, 'zookeeper:a', 'host-1')").Pass))
}

// Neither the owner of the functions nor the caller may end the transaction of another role.
func TestWhoMayNotBeEndedIsNamed(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	old, c, admin := s.connect("second"), s.connect("app"), s.connect("postgres")
	s.exec(admin, `create role owner`+s.name+`;
		do $$ declare f record; begin
			for f in select p.oid::regprocedure as name from pg_proc p where p.pronamespace = 'ringfence'::regnamespace and p.prosecdef loop
				execute format('alter function %s owner to owner`+s.name+`', f.name);
			end loop;
		end $$;
		grant all on schema ringfence, ringfence_private to owner`+s.name+`;
		grant all on all tables in schema ringfence, ringfence_private to owner`+s.name+`;
		grant all on all functions in schema ringfence, ringfence_private to owner`+s.name+`;
		grant all on all sequences in schema ringfence, ringfence_private to owner`+s.name+`;
		grant pg_read_all_stats to owner`+s.name)
	t.Cleanup(func() {
		_, _ = admin.Exec(context.WithoutCancel(s.ctx), "reassign owned by owner"+s.name+" to "+
			"postgres; drop owned by owner"+s.name+"; drop role owner"+s.name)
	})
	first := s.ready(old, "take('orders', 'host-1', 1)")
	inside, err := s.begin(old, "", first.Pass)
	must.Succeed(t, err)
	s.one(c, "take('orders', 'host-2', 2)")
	now := s.one(c, "take('orders', 'host-2', 2)")
	if now.Ready || now.Ending != 1 || now.Refused == nil ||
		!strings.Contains(*now.Refused, "RF006") || !strings.Contains(*now.Refused, "second") {
		t.Errorf("%+v", now)
	}
	must.Succeed(t, inside.Commit(s.ctx))
	s.ready(c, "take('orders', 'host-2', 2)")
}

// The longest name goes through every step.
func TestALongNameIsTakenLeftAndTakenAgain(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	c, name := s.connect("app"), strings.Repeat("r", 48)
	s.ready(c, "take($1, 'host-1', 1)", name)
	second := s.ready(c, "take($1, 'host-2', 2)", name)
	_, err := c.Exec(s.ctx, "select ringfence.leave($1)", second.Pass)
	must.Succeed(t, err)
	must.Report(t, s.writes(c, s.ready(c, "campaign($1::text, 'host-3')", name).Pass))
	s.ready(c, "take($1, 'host-3', 3)", name)
}

// Whoever has given up, or was deposed, and comes late with the same attempt deposes nobody.
func TestAnAttemptThatIsOverNeverWinsAgain(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]string{
		"left": "select ringfence.leave($1)", "deposed": "select ringfence.depose('orders', " +
			"split_part($1, ' ', 2)::bigint)",
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			c := s.connect("app")
			first := s.ready(c, "take('orders', 'host-1', 1)")
			if again := s.ready(c, "take('orders', 'host-1', 1)"); again.Token != first.Token {
				t.Errorf("a repeated call: %+v, %+v", first, again)
			}
			_, err := s.connect("postgres").Exec(s.ctx, end, first.Pass)
			must.Succeed(t, err)
			leader := s.ready(c, "campaign('orders'::text, 'host-2')")
			_, err = s.call(c, "take('orders', 'host-1', 1)")
			s.fails(err, "RF001")
			if err := s.writes(c, leader.Pass); err != nil {
				t.Errorf("the present leader: %v", err)
			}
		})
	}
}

// A resource that was taken is led until somebody else takes it.
func TestWhoHasTakenLeadsWithoutAnEnd(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	c := s.connect("app")
	led := s.ready(c, "campaign('orders'::text, 'host-2')")
	if led.Until == nil {
		t.Errorf("without a lease: %+v", led)
	}
	for _, call := range []string{"take('orders', 'host-1', 1)", "campaign('orders'::text, 'host-2')",
		"campaign(array['orders'], 'host-1')"} {
		if now := s.one(c, call); now.Until != nil || now.Leader != "host-1" {
			t.Errorf("%s: %+v", call, now)
		}
	}
}
