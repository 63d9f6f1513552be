package checkpoint_test

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/pgjournal"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/zookeeper"
	"github.com/ringfence/ringfence/store/pgstore"
)

// resume lets a stopped task continue, as `leader task resume` does. Only leaders write
// checkpoints, so it wins a term first.
func resume(
	ctx context.Context, d deployment, resource fence.Resource, task checkpoint.Name,
) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	coordinator, err := zookeeper.Open(ctx, d.coordinator, zookeeper.Options{})
	if err != nil {
		return err
	}
	defer coordinator.Close()
	pool, err := pgxpool.New(ctx, d.database)
	if err != nil {
		return err
	}
	defer pool.Close()
	raiser := pgstore.NewRaiser(d.database, nil)
	defer raiser.Close()
	j := pgjournal.New(pool, pgjournal.Options{Raiser: raiser})
	defer j.Close()
	lead := fence.Lead{Elector: coordinator, Resource: resource, Holder: "operator",
		Stores: []fence.Raiser{j}}
	return lead.Run(ctx, func(ctx context.Context, term *fence.Term) error {
		_, err := checkpoint.Resume(ctx, term, j, task)
		return err
	})
}
