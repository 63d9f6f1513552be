package sqlterms

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/postgres"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
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
	t.Parallel()
	var own sync.Once
	pg := serverstest.Postgres(t, servers.PostgresOptions{})
	for name, hold := range map[string]func(ctx context.Context, c *pgx.Conn, call string){
		"idle": func(ctx context.Context, c *pgx.Conn, call string) {
			// The limit of five seconds for idle transactions is switched off: it is the caller's own
			// setting.
			_, _ = c.PgConn().Exec(ctx, "begin; "+call+
				"; set local idle_in_transaction_session_timeout = 0").ReadAll()
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
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stageAt(t, pg, &own)
			ctx, cancel := context.WithCancel(s.ctx)
			var held sync.WaitGroup
			defer func() { cancel(); held.Wait() }()
			for _, call := range heldCalls {
				s.exec(s.connect("postgres"), "select ringfence.allow('app', '"+call.resource+"'), "+
					"ringfence.allow('second', '"+call.resource+"')")
				statement := "select ringfence." + strings.ReplaceAll(call.held, "RESOURCE", call.resource)
				if strings.HasPrefix(call.resource, "led") {
					first := s.ready(s.connect("app"), "take($1, 'host-1', 1)", call.resource)
					statement = strings.ReplaceAll(statement, "PASS", *first.Pass)
				}
				holder := s.connect("app")
				pid := int64(holder.PgConn().PID())
				held.Go(func() { hold(ctx, holder, statement) })
				s.until("select exists (select from pg_locks l where l.pid = $1 and l.locktype = 'advisory')",
					pid)
			}
			var next sync.WaitGroup
			began := time.Now()
			for _, call := range heldCalls {
				c := s.connect("second")
				next.Go(func() { call.next(s, c, call.resource) })
			}
			next.Wait()
			if took := time.Since(began); took > heldAtMost+slack {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// heldCalls are calls of every kind that locks rows of a resource, each with the next one for it.
// Somebody leads those that begin with led.
var heldCalls = []struct {
	resource, held string
	next           func(s *stage, c *pgx.Conn, resource string)
}{
	{"led_1", "campaign('RESOURCE'::text, 'holds')", campaigns},
	{"new_1", "campaign('RESOURCE'::text, 'holds')", campaigns},
	{"led_2", "take('RESOURCE', 'holds', 2)", takes},
	{"new_2", "take('RESOURCE', 'holds', 1)", takes},
	{"led_3", "leave('PASS')", takes},
	{"led_4", "revoke_own('RESOURCE', 1, 'zk:a', 0)", takes},
	{"brought_1", "bring('RESOURCE', 7, 'zk:a', 'holds')", brings},
	{"brought_2", "bring('RESOURCE', 7, 'zk:a', 'holds')", raises},
	{"raised_1", "raise_own('RESOURCE', 7, 'zk:a', 'holds', '', (select basis from " +
		"ringfence.look('RESOURCE')))", raises},
	{"raised_2", "raise_own('RESOURCE', 7, 'zk:a', 'holds', '', (select basis from " +
		"ringfence.look('RESOURCE')))", brings},
}

func campaigns(s *stage, c *pgx.Conn, resource string) {
	if _, err := s.call(c, "campaign($1::text, 'next')", resource); err != nil {
		s.Errorf("%s: %v", resource, err)
	}
}

func takes(s *stage, c *pgx.Conn, resource string) {
	next, err := s.call(c, "take($1, 'next', 3)", resource)
	if err != nil || next[0].Leader != "next" {
		s.Errorf("%s: %+v, %v", resource, next, err)
	}
}

func brings(s *stage, c *pgx.Conn, resource string) {
	next, err := s.call(c, "bring($1, 8, 'zk:a', 'next')", resource)
	if err != nil || next[0].Token != 8 {
		s.Errorf("%s: %+v, %v", resource, next, err)
	}
}

// raises raises as a program in Go does that leads without a guard.
func raises(s *stage, _ *pgx.Conn, resource string) {
	raiser := pgmarks.Raiser{URL: s.url("second")}
	if err := raiser.Raise(s.ctx, fence.Claim{
		Resource: fence.Resource(resource), Token: 8, Issuer: "zk:a", Holder: "next",
	}); err != nil {
		s.Errorf("%s: %v", resource, err)
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
	t.Parallel()
	s := newStage(t)
	coordinator, err := postgres.Open(s.ctx, s.url("postgres"),
		postgres.Options{SessionTimeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = coordinator.Close() })
	holder := s.connect("app")
	s.exec(holder, "begin; select ringfence.campaign('led'::text, 'holds'); set local "+
		"idle_in_transaction_session_timeout = 0")
	began := time.Now()
	electiontest.Win(t, coordinator, "led", "host-2")
	if took := time.Since(began); took > heldAtMost+slack {
		t.Errorf("it took %v", took)
	}
}

// Nobody can end a prepared transaction but by its name.
func TestAPreparedCallIsNamed(t *testing.T) {
	t.Parallel()
	var own sync.Once
	s := stageAt(t, serverstest.Postgres(t,
		servers.PostgresOptions{Settings: map[string]string{"max_prepared_transactions": "5"}}), &own)
	s.exec(s.connect("app"), "begin; select ringfence.take('led', 'holds', 2); prepare transaction "+
		"'mine'")
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
	t.Parallel()
	s := newStage(t)
	owner := "owner_" + s.name
	admin := s.connect("postgres")
	s.exec(admin, "create role "+owner+"; grant pg_read_all_stats to "+owner)
	s.owns(admin, owner)
	s.exec(s.connect("app"), "begin; select ringfence.take('led', 'holds', 1); set local "+
		"idle_in_transaction_session_timeout = 0")
	_, err := s.call(s.connect("second"), "take('led', 'next', 2)")
	s.fails(err, "RF006")
	if !strings.Contains(err.Error(), "of role app") || !strings.Contains(err.Error(), "idle in "+
		"transaction") {
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
		_, _ = admin.Exec(context.WithoutCancel(s.ctx), "drop owned by "+owner+" cascade; drop role "+
			owner)
	})
}
