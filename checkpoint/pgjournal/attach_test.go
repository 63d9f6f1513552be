package pgjournal_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/pgjournal"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestAConnectionIsAttachedOnceAndItsTransactionsAreNotChecked(t *testing.T) {
	t.Parallel()
	d := installed(t)
	task := one(func(ctx context.Context, tx pgx.Tx, s count) (count, error) {
		return s, insert(ctx, tx, "x")
	})
	task.Rounds = 3
	j := d.journal(t, pgjournal.Options{})
	d.exec(t, `create table called (what text); grant all on called to public;
	    do $do$ begin
	      execute regexp_replace(pg_get_functiondef('ringfence.enter(text, bigint, text, text)'::regprocedure),
	        '\mbegin\M', 'begin insert into public.called values (current_query());');
	    end $do$`)
	_, err := lead(t, j, 1, task)
	must.Succeed(t, err)
	called := d.list(t, "select what from called")
	if len(called) == 0 {
		t.Error("no call of enter was noted")
	}
	for _, query := range called {
		if strings.Contains(query, "begin") {
			t.Errorf("a step called enter: %s", query)
		}
	}
	if got := d.list(t, "select distinct token::text from ringfence_private.session"); len(got) != 1 ||
		got[0] != "1" {
		t.Errorf("registered under %q", got)
	}
	// The pool may have opened a second connection.
	if got := d.list(t, "select pid::text from ringfence_private.session group by pid, backend_start "+
		"having count(*) > 1"); len(got) != 0 {
		t.Errorf("registered more than once: %q", got)
	}
}

func TestARaiseEndsAnAttachedSessionInTheMiddleOfAStep(t *testing.T) {
	t.Parallel()
	d := installed(t)
	old := d.journal(t, pgjournal.Options{})
	inside, goOn, result := make(chan bool), make(chan bool), make(chan error, 1)
	go func() {
		_, err := lead(t, old, 1, one(func(ctx context.Context, tx pgx.Tx, s count) (count, error) {
			err := insert(ctx, tx, "old")
			inside <- true
			<-goOn
			return s, err
		}))
		result <- err
	}()
	<-inside
	other := one(func(ctx context.Context, tx pgx.Tx, s count) (count, error) {
		return s, insert(ctx, tx, "new")
	})
	other.Name = "other" // so that the older leader meets no version conflict
	_, err := lead(t, d.journal(t, pgjournal.Options{}), 2, other)
	must.Succeed(t, err)
	goOn <- true
	if err := <-result; !errors.Is(err, fence.ErrStale) || !errors.Is(err, fence.ErrSuperseded) {
		t.Errorf("the older leader ended with %v", err)
	}
	if got := d.list(t, "select value from effect"); len(got) != 1 || got[0] != "new" {
		t.Errorf("effects %q", got)
	}
}

func TestAnAttachedIdleConnectionOfADeposedLeaderIsEnded(t *testing.T) {
	t.Parallel()
	d := installed(t)
	idle := one(func(ctx context.Context, tx pgx.Tx, s count) (count, error) { return s, nil })
	_, err := lead(t, d.journal(t, pgjournal.Options{}), 1, idle)
	must.Succeed(t, err)
	raise(t, d.journal(t, pgjournal.Options{}), 2)
	if left := d.list(t, "select pid::text from ringfence_private.session"); len(left) != 0 {
		t.Errorf("backends %q are left under the older token", left)
	}
}

// A pooler may replace the attached session by another one. The transaction then enters when it
// publishes.
func TestATransactionInASessionThatIsNotAttachedEntersOrPublishesNothing(t *testing.T) {
	t.Parallel()
	d := installed(t)
	j := d.journal(t, pgjournal.Options{})
	raise(t, j, 1)
	conn := pgtest.Connect(t, d.url("app"))
	publish := func(version int) error {
		tx, err := pgmarks.BeginAttached(t.Context(), conn, term(1).Claim(), pgx.TxOptions{})
		must.Succeed(t, err)
		if _, err = tx.Exec(t.Context(), "select ringfence.publish('orders', 1, 'unverified', "+
			"'task', $1, '{}')", version); err == nil {
			return tx.Commit(t.Context())
		}
		_ = tx.Rollback(t.Context())
		return err
	}
	if err := publish(1); err != nil {
		t.Errorf("under the mark: %v", err)
	}
	raise(t, j, 2)
	if err := publish(2); err == nil || !strings.Contains(err.Error(), "RF001") {
		t.Errorf("under a newer mark: %v", err)
	}
}

func TestASessionThatAGuardWouldNotAdmitIsNotAttached(t *testing.T) {
	t.Parallel()
	d := installed(t)
	conn := pgtest.Connect(t, d.url("app"))
	refused := func(what string, c fence.Claim, want error) {
		t.Helper()
		if ok, err := pgmarks.Attach(t.Context(), conn, c); ok || !errors.Is(err, want) {
			t.Errorf("%s: %v, %v", what, ok, err)
		}
	}
	refused("before any raise", term(5).Claim(), fence.ErrNotRaised)
	raise(t, d.journal(t, pgjournal.Options{}), 5)
	refused("above the mark", term(6).Claim(), fence.ErrNotRaised)
	refused("below the mark", term(4).Claim(), fence.ErrStale)
	foreign := term(5).Claim()
	foreign.Issuer = "another"
	refused("of another issuer", foreign, fence.ErrOtherIssuer)
	var attached bool // as behind a pooler, where the login returned another process id
	if err := conn.QueryRow(t.Context(), "select ringfence.attach(pg_backend_pid() + 1, 'orders', "+
		"5, 'unverified')").Scan(&attached); err != nil || attached {
		t.Errorf("a pooler's session is attached: %v", err)
	}
	if got := d.list(t, "select pid::text from ringfence_private.session"); len(got) != 0 {
		t.Errorf("registered: %q", got)
	}
}

// attaches reports whether a connection is attached.
func attaches(t *testing.T, url, set string) bool {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	must.Succeed(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	_, err = conn.Exec(t.Context(), set)
	must.Succeed(t, err)
	ok, err := pgmarks.Attach(t.Context(), conn, term(1).Claim())
	must.Succeed(t, err)
	return ok
}

func raise(t *testing.T, j *pgjournal.Journal, token fence.Token) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must.Succeed(t, j.Raise(ctx, term(token).Claim()))
}

func TestWithoutAnAttachmentEachTransactionIsChecked(t *testing.T) {
	t.Parallel()
	d := installed(t)
	raise(t, d.journal(t, pgjournal.Options{}), 1)
	if !attaches(t, d.url("app"), "") {
		t.Error("an ordinary session is not attached")
	}
	if attaches(t, d.url("postgres"), "") {
		t.Error("a superuser's session is attached, and nobody could end it")
	}
	if attaches(t, d.url("app"), "set default_transaction_isolation = 'repeatable read'") {
		t.Error("a session that sees old marks is attached")
	}
	pooler := serverstest.PgBouncer(t, d.pg, servers.PgBouncerOptions{})
	cfg, err := pgxpool.ParseConfig(pooler.URL("app", d.name))
	must.Succeed(t, err)
	cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	must.Succeed(t, err)
	defer pool.Close()
	j := pgjournal.New(pool, pgjournal.Options{Raiser: pgmarks.NewRaiser(d.url("guard_role"))})
	defer j.Close()
	_, err = lead(t, j, 1, one(func(ctx context.Context, tx pgx.Tx, s count) (count, error) {
		return s, insert(ctx, tx, "pooled")
	}))
	must.Succeed(t, err)
	if got := d.list(t, "select pid::text from ringfence_private.session s where exists (select from "+
		"pg_stat_activity a where a.pid = s.pid)"); len(got) != 0 {
		t.Errorf("the pooler's backends %q are registered", got)
	}
	if found, err := j.Load(t.Context(), "task"); err != nil || len(found) != 1 ||
		found[0].Status != checkpoint.Done {
		t.Errorf("loaded %v, %v", found, err)
	}
	raise(t, j, 2)
	_, err = lead(t, j, 2, checkpoint.Task[count]{Name: "next", Steps: []checkpoint.Step[count]{
		pgjournal.Step("only", func(ctx context.Context, tx pgx.Tx, s count) (count, error) {
			return s, insert(ctx, tx, "again")
		})}})
	must.Report(t, err)
}
