package fenced

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/postgres"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/store/pgstore"
)

// bookArgs are the arguments of a job.
type bookArgs struct {
	Merchant string `json:"merchant"`
}

func (bookArgs) Kind() string { return "book" }

// booker books a merchant, and completes the job in the same transaction. River itself would
// complete it by its ID, whichever attempt says so.
type booker struct {
	river.WorkerDefaults[bookArgs]
	pool *pgxpool.Pool
	meet func(ctx context.Context, attempt int) // between the beginning of the work and its writes
	ends chan error
}

func (b *booker) Work(ctx context.Context, job *river.Job[bookArgs]) error {
	term := Term(ctx)
	b.meet(ctx, job.Attempt)
	// like a process that was paused, and does not look
	err := b.book(context.WithoutCancel(ctx), term, job)
	b.ends <- err
	return err
}

func (b *booker) book(ctx context.Context, term *fence.Term, job *river.Job[bookArgs]) error {
	tx, err := pgstore.Begin(ctx, b.pool, term.Claim(), pgx.TxOptions{})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	if _, err := tx.Exec(ctx, "insert into ledger values ($1, $2)", job.Args.Merchant,
		job.Attempt); err != nil {
		return err
	}
	if _, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// The first attempt is thought dead: its term ends, and River hands the job out again. When it goes
// on it is refused, so the merchant is booked once.
func TestAnAttemptThatWasThoughtDeadBooksNothing(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	url, pool := database(ctx, t)
	begun, goOn := make(chan struct{}), make(chan struct{})
	b := &booker{pool: pool, ends: make(chan error, 2), meet: func(_ context.Context, attempt int) {
		if attempt == 1 {
			close(begun)
			<-goOn
		}
	}}
	client, coordinator := start(ctx, t, url, pool, b)
	inserted, err := client.Insert(ctx, bookArgs{"m1"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	candidates, err := coordinator.Candidates(ctx, Resource(inserted.Job.ID))
	if err != nil || len(candidates) != 1 {
		t.Fatal(candidates, err)
	}
	if _, err := coordinator.Depose(ctx, Resource(inserted.Job.ID), candidates[0].Token); err != nil {
		t.Fatal(err)
	}
	// What River's rescuer does after RescueStuckJobsAfter.
	if _, err := pool.Exec(ctx, "update river_job set state = 'available' where id = $1",
		inserted.Job.ID); err != nil {
		t.Fatal(err)
	}
	if err := <-b.ends; err != nil {
		t.Errorf("the second attempt: %v", err)
	}
	close(goOn)
	if err := <-b.ends; !errors.Is(err, fence.ErrStale) {
		t.Errorf("the first attempt is not refused: %v", err)
	}
	var bookings, attempt int
	if err := pool.QueryRow(ctx, "select count(*), max(attempt) from ledger").Scan(&bookings,
		&attempt); err != nil ||
		bookings != 1 || attempt != 2 {
		t.Errorf("%d bookings, the last by attempt %d, %v", bookings, attempt, err)
	}
}

// database starts a Postgres for River, the elections and the ledger.
func database(ctx context.Context, t *testing.T) (url string, pool *pgxpool.Pool) {
	t.Helper()
	pg, err := servers.StartPostgres(ctx, servers.PostgresOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pg.Close() })
	url = pg.URL("postgres", "postgres")
	guard := exec.CommandContext(ctx, "go", "run", "./cmd/guard", "install")
	guard.Dir = filepath.Join("..", "..")
	guard.Env = append(os.Environ(), "GUARD_POSTGRES_UPSTREAM="+url, "GUARD_POSTGRES_ADMIN="+url)
	if out, err := guard.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if pool, err = pgxpool.New(ctx, url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if _, err := pool.Exec(ctx, "create table ledger (merchant text, attempt int)"); err != nil {
		t.Fatal(err)
	}
	m, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err == nil {
		_, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return url, pool
}

// start starts a River client with two workers, and a coordinator.
func start(
	ctx context.Context, t *testing.T, url string, pool *pgxpool.Pool, b *booker,
) (*river.Client[pgx.Tx], *postgres.Coordinator) {
	t.Helper()
	coordinator, err := postgres.Open(ctx, url, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = coordinator.Close() })
	raiser := pgstore.NewRaiser(url, coordinator)
	t.Cleanup(raiser.Close)
	workers := river.NewWorkers()
	river.AddWorker(workers, b)
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 2}}, Workers: workers,
		FetchPollInterval: 100 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		Middleware: []rivertype.Middleware{&Middleware{
			Elector: coordinator, Holder: "test",
			Stores: []fence.Raiser{raiser},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Start(context.WithoutCancel(ctx)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.StopAndCancel(context.WithoutCancel(ctx)) })
	return client, coordinator
}
