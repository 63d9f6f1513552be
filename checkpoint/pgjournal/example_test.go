package pgjournal_test

import (
	"context"
	"log"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/pgjournal"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/zookeeper"
	"github.com/ringfence/ringfence/store/pgstore"
)

// A step that books rows and publishes its checkpoint in one transaction, so that it books them
// exactly once, whichever process leads.
func Example() {
	ctx := context.Background()
	coordinator, err := zookeeper.Open(ctx, "zk://zk1:2181,zk2:2181/ringfence", zookeeper.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer coordinator.Close()
	const database = "postgres://app:password@guard:6432/shop"
	pool, err := pgxpool.New(ctx, database)
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	raiser := pgstore.NewRaiser(database, coordinator)
	defer raiser.Close()
	journal := pgjournal.New(pool, pgjournal.Options{Raiser: raiser})
	defer journal.Close()

	lead := fence.Lead{Elector: coordinator, Resource: "ledger", Holder: "host-1"}
	booked, err := checkpoint.RunTask(ctx, lead, journal, "settlement-2026-11-21",
		pgjournal.Step("book", book))
	if err != nil {
		log.Fatal(err)
	}
	log.Print(booked, " rows are booked")
}

func book(ctx context.Context, tx pgx.Tx, booked int) (int, error) {
	tag, err := tx.Exec(ctx, "insert into ledger values (10), (20)")
	return booked + int(tag.RowsAffected()), err
}
