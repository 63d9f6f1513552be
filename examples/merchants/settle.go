package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/pgjournal"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/store/pgstore"
)

// work runs jobs until ctx ends. The database is that of the guard.
func work(ctx context.Context, queue *jobs.Queue, database string) error {
	config, err := pgxpool.ParseConfig(database)
	if err != nil {
		return err
	}
	config.MaxConns = 1 // of each job: its steps run one after the other
	host, _ := os.Hostname()
	raiser := pgstore.NewRaiser(database, nil)
	defer raiser.Close()
	worker := jobs.Worker{
		Queue: queue, Name: fmt.Sprintf("%s:%d", host, os.Getpid()), Capacity: 4, Log: slog.Default(),
		Stores: []fence.Raiser{raiser}, // raised before a handler is called
	}
	jobs.Handle(&worker, kind, settler{config}.settle)
	return worker.Run(ctx)
}

// settler settles merchants.
type settler struct{ config *pgxpool.Config }

// settled is the state of a settlement, and in the end the job's result.
type settled struct {
	Orders int    `json:"orders"`
	Amount string `json:"amount"`
}

// settle is the handler. All that it writes, the checkpoints too, goes through the guard under the
// job's token. So a worker that was only paused writes nothing once the next one has begun, and the
// next one goes on after the last step that was committed.
func (w settler) settle(ctx context.Context, run *jobs.Run, s settlement) (sum settled, err error) {
	pool, err := pgstore.NewPool(ctx, run.Term, w.config)
	if err != nil {
		return sum, err
	}
	defer pool.Close()
	j := pgjournal.New(pool, pgjournal.Options{})
	defer j.Close()
	end, err := s.task(pool).Run(ctx, run.Term, j, checkpoint.Checkpoint{})
	if err == nil {
		err = json.Unmarshal(end.State, &sum)
	}
	return sum, err
}

// task are the steps of a settlement. Its name is the settlement's, so it is the same task
// whichever job runs it.
func (s settlement) task(pool *pgxpool.Pool) checkpoint.Task[settled] {
	return checkpoint.Task[settled]{
		Name: checkpoint.Name("settle-" + s.String()),
		Steps: []checkpoint.Step[settled]{
			pgjournal.Step("close", s.close),
			pgjournal.Step("book", s.book),
			{Name: "pay", Run: func(ctx context.Context, sum settled, key checkpoint.Key) (settled, error) {
				return sum, pay(ctx, pool, s.Merchant, sum, key)
			}},
		},
	}
}

// close marks the orders that belong to this settlement. Orders that come later belong to the next.
func (s settlement) close(ctx context.Context, tx pgx.Tx, sum settled) (settled, error) {
	err := tx.QueryRow(ctx, `with closed as (
			update orders set settlement = $1
			where merchant = $2 and settlement is null and day < $3::text::date returning amount)
		select count(*), coalesce(sum(amount), 0)::text from closed`,
		s.String(), s.Merchant, s.Day).Scan(&sum.Orders, &sum.Amount)
	return sum, err
}

// book writes the ledger. No constraint keeps it from being booked twice: the checkpoint does,
// which is committed in the same transaction.
func (s settlement) book(ctx context.Context, tx pgx.Tx, sum settled) (settled, error) {
	_, err := tx.Exec(ctx,
		`insert into ledger (settlement, merchant, amount) values ($1, $2, $3::text::numeric)`,
		s.String(), s.Merchant, sum.Amount)
	return sum, err
}

// pay stands for a request to a bank, which knows nothing of tokens. It may be sent more than once,
// each time with the same key, and the bank drops what it has seen.
func pay(
	ctx context.Context, bank *pgxpool.Pool, merchant string, sum settled, key checkpoint.Key,
) error {
	_, err := bank.Exec(ctx, `insert into payments (key, merchant, amount) values ($1, $2, $3::text::numeric)
		on conflict (key) do nothing`, key.String(), merchant, sum.Amount)
	return err
}
