package zookeeper_test

import (
	"context"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/zookeeper"
	"github.com/ringfence/ringfence/store/postgres"
)

// A leader program: it campaigns, works under a fenced pool while it leads, and campaigns again.
// The README shows it.
func Example() {
	ctx := context.Background()
	if err := runAsLeader(ctx); err != nil {
		slog.Error("stopped", "err", err)
	}
}

func runAsLeader(ctx context.Context) error {
	coordinator, err := zookeeper.Open(ctx, "zk://zk1:2181,zk2:2181,zk3:2181/ringfence",
		zookeeper.Options{})
	if err != nil {
		return err
	}
	defer coordinator.Close()

	lead := fence.Lead{
		Elector:  coordinator,
		Resource: "orders",
		Holder:   "billing-7",
		Stores:   []fence.Raiser{postgres.NewRaiser("postgres://app@guard:6432/shop")},
	}
	for ctx.Err() == nil {
		err := lead.Run(ctx, func(ctx context.Context, term *fence.Term) error {
			cfg, err := pgxpool.ParseConfig("postgres://app@guard:6432/shop")
			if err != nil {
				return err
			}
			// its connections carry the token and die with the term
			pool, err := postgres.Pool(ctx, term, cfg)
			if err != nil {
				return err
			}
			defer pool.Close()
			return work(ctx, pool) // ctx ends with the term; context.Cause says why
		})
		slog.Info("no longer leader", "cause", err)
	}
	return context.Cause(ctx)
}

func work(ctx context.Context, pool *pgxpool.Pool) error {
	_, err := pool.Exec(ctx, "update account set balance = balance + 10")
	return err
}
