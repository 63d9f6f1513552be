package sqlterms

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	elections "github.com/ringfence/ringfence/fence/postgres"
	marks "github.com/ringfence/ringfence/internal/marks/postgres"
	"github.com/ringfence/ringfence/internal/test/electiontest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

const (
	heldAtMost = 5 * time.Second
	slack      = 10 * time.Second // on a machine that is busy
)

// The next call for a resource ends the transaction of one that is held open, whatever that does.
func TestTheNextCallEndsOneThatIsHeldOpen(t *testing.T) {
	var own sync.Once
	pg := serverstest.Postgres(t, servers.PostgresOptions{})
	for name, hold := range map[string]func(ctx context.Context, c *pgx.Conn, call string){
		"idle": func(ctx context.Context, c *pgx.Conn, call string) {
			// The limit of five seconds for idle transactions is switched off: it is the caller's own setting.
			_, _ = c.PgConn().Exec(ctx, "begin; "+call+"; set local idle_in_transaction_session_timeout = 0").ReadAll()
		},
		"active": func(ctx context.Context, c *pgx.Conn, call string) {
			_, _ = c.PgConn().Exec(ctx, "begin; "+call+"; select pg_sleep(600)").ReadAll()
		},
		"in a pipeline": func(ctx context.Context, c *pgx.Conn, call string) {
			p := c.PgConn().StartPipeline(ctx)
			p.SendQueryParams(call, nil, nil, nil, nil)
			p.SendFlushRequest()
			_ = p.Flush()
			_, _ = p.GetResults() // no Sync follows
		},
		"in COPY": func(ctx context.Context, c *pgx.Conn, call string) {
			_, _ = c.PgConn().Exec(ctx, "begin; "+call+"; create temp table t (x text)").ReadAll()
			_, _ = c.PgConn().CopyFrom(ctx, blocked{ctx}, "copy t from stdin")
		},
	} {
		for _, call := range heldCalls {
			t.Run(name+" after "+call.held, func(t *testing.T) {
				t.Parallel()
				s := stageAt(t, pg, &own)
				s.exec(s.connect("postgres"), "select ringfence.allow('app', 'brought'), ringfence.allow('second', 'brought')")
				first := s.ready(s.connect("app"), "take('led', 'host-1', 1)")
				ctx, cancel := context.WithCancel(s.ctx)
				defer cancel()
				holder, done := s.connect("app"), make(chan struct{})
				pid := holder.PgConn().PID()
				go func() {
					defer close(done)
					hold(ctx, holder, "select ringfence."+strings.ReplaceAll(call.held, "PASS", "'"+*first.Pass+"'"))
				}()
				defer func() { cancel(); <-done }()
				s.until("select exists (select from pg_locks l where l.pid = $1 and l.locktype = 'advisory')", int64(pid))
				began := time.Now()
				call.next(s)
				if took := time.Since(began); took > heldAtMost+slack {
					t.Errorf("it took %v", took)
				}
			})
		}
	}
}

// heldCalls are calls of every kind that locks rows of a resource, each with the next one for it.
var heldCalls = []struct {
	held string
	next func(s *stage)
}{
	{"campaign('led'::text, 'holds')", func(s *stage) { s.one(s.connect("second"), "campaign('led'::text, 'next')") }},
	{"campaign('new'::text, 'holds')", func(s *stage) { s.one(s.connect("second"), "campaign('new'::text, 'next')") }},
	{"take('led', 'holds', 2)", takes("led")},
	{"take('new', 'holds', 1)", takes("new")},
	{"leave(PASS)", takes("led")},
	{"bring('brought', 7, 'shedlock', 'holds')", func(s *stage) { s.one(s.connect("second"), "bring('brought', 8, 'shedlock', 'next')") }},
	{"bring('brought', 7, 'shedlock', 'holds')", raises("brought", "shedlock")},
	{"raise_own('raised', 7, 'zk:a', 'holds', '', (select basis from ringfence.look('raised')))", raises("raised", "zk:a")},
	{"revoke_own('led', 1, 'zk:a', 0)", takes("led")},
}

func takes(resource string) func(s *stage) {
	return func(s *stage) {
		s.Helper()
		if next := s.one(s.connect("second"), "take($1, 'next', 3)", resource); next.Leader != "next" {
			s.Errorf("after the call %+v", next)
		}
	}
}

// raises raises as a program in Go does that leads without a guard.
func raises(resource fence.Resource, issuer fence.Issuer) func(s *stage) {
	return func(s *stage) {
		s.Helper()
		raiser := marks.Raiser{URL: s.url("second")}
		if err := raiser.Raise(s.ctx, fence.Claim{Resource: resource, Token: 8, Issuer: issuer, Holder: "next"}); err != nil {
			s.Error(err)
		}
	}
}

// blocked is what a client has not sent.
type blocked struct{ ctx context.Context }

func (b blocked) Read([]byte) (int, error) {
	<-b.ctx.Done()
	return 0, b.ctx.Err()
}

// until waits until a query returns true.
func (s *stage) until(sql string, args ...any) {
	s.Helper()
	c := s.connect("postgres")
	electiontest.Eventually(s.TB, sql, func() (is bool) {
		return c.QueryRow(s.ctx, sql, args...).Scan(&is) == nil && is
	})
}

// The coordinator's other clients wait as long, and no longer.
func TestACandidateEndsACallThatIsHeldOpen(t *testing.T) {
	s := newStage(t)
	coordinator, err := elections.Open(s.ctx, s.url("postgres"), elections.Options{SessionTimeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = coordinator.Close() })
	holder := s.connect("app")
	s.exec(holder, "begin; select ringfence.campaign('led'::text, 'holds'); set local idle_in_transaction_session_timeout = 0")
	began := time.Now()
	electiontest.Win(t, coordinator, "led", "host-2")
	if took := time.Since(began); took > heldAtMost+slack {
		t.Errorf("it took %v", took)
	}
}

// Nobody can end a prepared transaction but by its name.
func TestAPreparedCallIsNamed(t *testing.T) {
	var own sync.Once
	s := stageAt(t, serverstest.Postgres(t, servers.PostgresOptions{Settings: map[string]string{"max_prepared_transactions": "5"}}), &own)
	s.exec(s.connect("app"), "begin; select ringfence.take('led', 'holds', 2); prepare transaction 'mine'")
	c := s.connect("second")
	_, err := s.call(c, "take('led', 'next', 3)")
	s.fails(err, "RF006")
	if !strings.Contains(err.Error(), "prepared transaction 'mine'") {
		t.Error(err)
	}
	s.exec(s.connect("postgres"), "rollback prepared 'mine'")
	s.ready(c, "take('led', 'next', 3)")
}

// The functions belong to a role that may end nobody else's sessions, as on some managed services.
func TestWhoHoldsACallOpenIsNamedIfNobodyMayEndIt(t *testing.T) {
	s := newStage(t)
	owner := "owner_" + s.name
	admin := s.connect("postgres")
	s.exec(admin, "create role "+owner+"; grant pg_read_all_stats to "+owner)
	s.owns(admin, owner)
	s.exec(s.connect("app"), "begin; select ringfence.take('led', 'holds', 1); set local idle_in_transaction_session_timeout = 0")
	_, err := s.call(s.connect("second"), "take('led', 'next', 2)")
	s.fails(err, "RF006")
	if !strings.Contains(err.Error(), "of role app") || !strings.Contains(err.Error(), "idle in transaction") {
		t.Error(err)
	}
	s.exec(admin, "grant pg_signal_backend to "+owner)
	s.ready(s.connect("second"), "take('led', 'next', 2)")
}

// owns gives everything of the schemas to a role.
func (s *stage) owns(admin *pgx.Conn, owner string) {
	s.Helper()
	s.exec(admin, `do $$
	declare
	    x record;
	begin
	    for x in select format('alter schema %I owner to `+owner+`', n.nspname) as command from pg_namespace n where n.nspname like 'ringfence%'
	        union all select format('alter table %s owner to `+owner+`', c.oid::regclass) from pg_class c
	         where c.relnamespace::regnamespace::text like 'ringfence%' and c.relkind in ('r', 'v')
	        union all select format('alter sequence %s owner to `+owner+`', c.oid::regclass) from pg_class c
	         where c.relnamespace::regnamespace::text like 'ringfence%' and c.relkind = 'S'
	        union all select format('alter function %s owner to `+owner+`', p.oid::regprocedure) from pg_proc p
	         where p.pronamespace::regnamespace::text like 'ringfence%'
	    loop
	        execute x.command;
	    end loop;
	end $$`)
	s.Cleanup(func() {
		_, _ = admin.Exec(context.WithoutCancel(s.ctx), "drop owned by "+owner+" cascade; drop role "+owner)
	})
}
