package pgjournal_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/pgjournal"
	"github.com/ringfence/ringfence/checkpoint/taskevent"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

type count struct{ N int }

type backing struct{}

func (backing) Acknowledge(context.Context) error { return nil }
func (backing) Release(context.Context) error     { return nil }

// term makes a term of one hour.
func term(token fence.Token) *fence.Term {
	t, _ := elector.NewTerm(fence.Claim{Resource: "orders", Token: token, Issuer: elector.Unverified,
		Holder: "test"}, time.Now(), time.Hour, backing{})
	return t
}

// insert makes the effect of a step.
func insert(ctx context.Context, tx pgx.Tx, value string) error {
	_, err := tx.Exec(ctx, "insert into effect (value) values ($1)", value)
	return err
}

// one makes a task of one synchronous step.
func one(run func(ctx context.Context, tx pgx.Tx, s count) (count, error)) checkpoint.Task[count] {
	return checkpoint.Task[count]{Name: "task",
		Steps: []checkpoint.Step[count]{pgjournal.Step("only", run)}}
}

// lead raises the mark and runs a task as the leader with a token.
func lead(
	t *testing.T, j *pgjournal.Journal, token fence.Token, task checkpoint.Task[count],
) (checkpoint.Checkpoint, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tm := term(token)
	must.Succeed(t, j.Raise(ctx, tm.Claim()))
	return task.Run(ctx, tm, j, checkpoint.Checkpoint{})
}

func TestASerializationFailureUsesUpNoAttempt(t *testing.T) {
	t.Parallel()
	d := installed(t)
	runs := 0
	_, err := lead(t, d.journal(t, pgjournal.Options{}), 1,
		one(func(ctx context.Context, tx pgx.Tx, s count) (count, error) {
			if runs++; runs < 4 {
				_, err := tx.Exec(ctx, "do $$ begin raise exception using errcode = '40001'; end $$")
				return s, fmt.Errorf("book: %w", err)
			}
			return s, insert(ctx, tx, "x")
		}))
	if err != nil || runs != 4 {
		t.Errorf("%d runs: %v", runs, err)
	}
	if got := d.list(t, "select value from effect"); len(got) != 1 {
		t.Errorf("effects %q", got)
	}
}

func TestAnErrorOfTheStepUsesUpAnAttemptAndIsRecorded(t *testing.T) {
	t.Parallel()
	d := installed(t)
	j := d.journal(t, pgjournal.Options{})
	runs := 0
	task := one(func(ctx context.Context, tx pgx.Tx, s count) (count, error) {
		runs++
		if err := insert(ctx, tx, "x"); err != nil {
			return s, err
		}
		_, err := tx.Exec(ctx, "insert into nowhere values (1)")
		return s, err
	})
	task.Retry = checkpoint.Retry{Attempts: 3,
		Backoff: checkpoint.Exponential(time.Millisecond, time.Millisecond)}
	_, err := lead(t, j, 1, task)
	var pg *pgconn.PgError
	if !errors.Is(err, checkpoint.ErrStopped) || !errors.As(err, &pg) || runs != 3 {
		t.Errorf("%d runs: %v", runs, err)
	}
	if got := d.list(t, "select value from effect"); len(got) != 0 {
		t.Errorf("a failed step has left %q", got)
	}
	if found, err := j.Load(t.Context(), "task"); err != nil || found[0].Failure == nil ||
		found[0].Failure.Attempts != 3 {
		t.Errorf("recorded: %+v, %v", found, err)
	}
}

func TestAStepThatIgnoresAnErrorOfItsTransactionLeavesNothing(t *testing.T) {
	t.Parallel()
	d := installed(t)
	_, err := lead(t, d.journal(t, pgjournal.Options{}), 1,
		one(func(ctx context.Context, tx pgx.Tx, s count) (count, error) {
			if err := insert(ctx, tx, "x"); err != nil {
				return s, err
			}
			_, _ = tx.Exec(ctx, "select 1/0")
			return s, nil
		}))
	if !errors.Is(err, checkpoint.ErrStopped) || !errors.Is(err, checkpoint.ErrUncommitted) {
		t.Errorf("got %v", err)
	}
	if got := d.list(t, "select value from effect"); len(got) != 0 {
		t.Errorf("it has left %q", got)
	}
}

func TestAStepThatEndsItsOwnTransactionStopsTheTask(t *testing.T) {
	t.Parallel()
	for _, statement := range []string{"commit", "rollback", "commit; begin"} {
		t.Run(statement, func(t *testing.T) {
			d := installed(t)
			_, err := lead(t, d.journal(t, pgjournal.Options{}), 1,
				one(func(ctx context.Context, tx pgx.Tx, s count) (count, error) {
					_, err := tx.Exec(ctx, statement)
					return s, err
				}))
			if !errors.Is(err, checkpoint.ErrStopped) ||
				!strings.Contains(err.Error(), "was ended before its checkpoint") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestADeferredConstraintThatFailsAtCommitIsTheStepsFailure(t *testing.T) {
	t.Parallel()
	d := installed(t)
	d.exec(t, "alter table effect add constraint once unique (value) deferrable initially deferred")
	_, err := lead(t, d.journal(t, pgjournal.Options{}), 1,
		one(func(ctx context.Context, tx pgx.Tx, s count) (count, error) {
			return s, errors.Join(insert(ctx, tx, "x"), insert(ctx, tx, "x"))
		}))
	if !errors.Is(err, checkpoint.ErrStopped) || !errors.Is(err, checkpoint.ErrUncommitted) {
		t.Errorf("got %v", err)
	}
	if got := d.list(t, "select value from effect"); len(got) != 0 {
		t.Errorf("it has left %q", got)
	}
}

func TestAJournalThatIsNotInstalledReturnsErrNotInstalled(t *testing.T) {
	t.Parallel()
	pg := serverstest.SharedPostgres(t)
	d := database{pg, serverstest.FreshDatabase(t, pg)}
	pool, err := pgxpool.New(t.Context(), d.url("postgres"))
	must.Succeed(t, err)
	defer pool.Close()
	j := pgjournal.New(pool, pgjournal.Options{Raiser: pgmarks.NewRaiser(d.url("postgres"))})
	defer j.Close()
	c := term(1).Claim()
	_, _, taken := j.TakeOver(t.Context(), c, "task", 0)
	_, loaded := j.Load(t.Context())
	for what, err := range map[string]error{
		"raise": j.Raise(t.Context(), c), "take": taken, "load": loaded,
		"publish": j.Publish(t.Context(), c,
			checkpoint.Checkpoint{Task: "task", Resource: "orders", Version: 1}),
		"transact": j.Transact(t.Context(), c,
			func(context.Context, pgx.Tx) (cp checkpoint.Checkpoint, err error) { return cp, nil }),
		"follow": j.Follow(t.Context(), "task", func(checkpoint.Checkpoint) error { return nil }),
	} {
		if !errors.Is(err, fence.ErrNotInstalled) || !strings.Contains(err.Error(), "guard install") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestTheErrorOfARoleWithoutTheGrantSaysWhatToDo(t *testing.T) {
	t.Parallel()
	d := installed(t)
	d.exec(t, "do $$ begin if not exists (select from pg_roles where rolname = 'stranger') then "+
		"create role stranger login; end if; end $$")
	pool, err := pgxpool.New(t.Context(), d.url("stranger"))
	must.Succeed(t, err)
	defer pool.Close()
	j := pgjournal.New(pool, pgjournal.Options{Raiser: pgmarks.NewRaiser(d.url("guard_role"))})
	defer j.Close()
	_, err = j.Load(t.Context())
	if err == nil || !strings.Contains(err.Error(), "GUARD_POSTGRES_LEADERS") ||
		errors.Is(err, checkpoint.ErrTransient) {
		t.Errorf("got %v", err)
	}
}

func TestARowThatIsNotACheckpointIsCorruptAndStays(t *testing.T) {
	t.Parallel()
	d := installed(t)
	d.exec(t, `insert into ringfence_private.checkpoint (task, resource, version, token, checkpoint)
		values ('task', 'orders', 5, 1, '["not", "one"]')`)
	_, err := lead(t, d.journal(t, pgjournal.Options{}), 1,
		one(func(ctx context.Context, tx pgx.Tx, s count) (count, error) {
			return s, errors.New("was run")
		}))
	if !errors.Is(err, checkpoint.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
	got := d.list(t, "select checkpoint::text from ringfence_private.checkpoint")
	if got[0] != `["not", "one"]` {
		t.Errorf("it became %s", got)
	}
}

func TestATaskSurvivesAServerThatIsKilledAndRestarted(t *testing.T) {
	t.Parallel()
	pg := serverstest.Postgres(t, servers.PostgresOptions{})
	d := database{pg, "postgres"}
	d.exec(t, "create role guard_role login; create role app login; "+
		"create table effect (place bigserial, value text); grant all on effect, effect_place_seq to app")
	must.Succeed(t, pgmarks.Install(t.Context(), d.url("postgres"), "guard_role", "app"))
	const rounds = 60
	killed := make(chan struct{}) // closed after the last time
	task := checkpoint.Task[count]{Name: "task", Rounds: rounds, Steps: []checkpoint.Step[count]{
		pgjournal.Step("book", func(ctx context.Context, tx pgx.Tx, s count) (count, error) {
			s.N++
			return s, insert(ctx, tx, fmt.Sprint(s.N))
		}),
		{Name: "note", Run: func(ctx context.Context, s count, _ checkpoint.Key) (count, error) {
			if s.N == rounds { // or it might be done before the last kill
				select {
				case <-killed:
				case <-ctx.Done():
				}
			}
			return s, nil
		}},
	}}
	ended := make(chan int64, 200)
	task.Notify = func(e checkpoint.Event) {
		if e.Kind == taskevent.Ended {
			ended <- e.Checkpoint.Version
		}
	}
	result := make(chan error, 1)
	go func() {
		_, err := lead(t, d.journal(t, pgjournal.Options{}), 1, task)
		result <- err
	}()
	for _, at := range []int64{5, 40} {
		for reached := false; !reached; {
			select {
			case v := <-ended:
				reached = v >= at
			case err := <-result:
				t.Fatalf("it ended too early: %v", err)
			}
		}
		must.Succeed(t, pg.Kill())
		must.Succeed(t, pg.Start(t.Context()))
	}
	close(killed)
	must.Succeed(t, <-result)
	got := d.list(t, "select value from effect order by place")
	for i, value := range got {
		if value != fmt.Sprint(i+1) {
			t.Fatalf("the effects are %q", got)
		}
	}
	if len(got) != rounds {
		t.Errorf("%d effects", len(got))
	}
}
