package zookeeper_test

import (
	"context"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/zookeeper"
	"github.com/ringfence/ringfence/store/pgstore"
)

// A whole program: start it on several machines. It waits until it wins the election, raises the
// mark in the database, and works while it leads.
//
// Here each transaction carries the token, and no guard is needed. Behind a guard, pgstore.Lead
// gives the work a pool whose connections carry it, and transactions begin as usual.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	elections, err := zookeeper.Open(ctx, "zk://zk1:2181,zk2:2181,zk3:2181/shop", zookeeper.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer elections.Close()
	const database = "postgres://app@db/shop"
	pool, err := pgxpool.New(ctx, database)
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	raiser := pgstore.NewRaiser(database, elections)
	defer raiser.Close()

	host, _ := os.Hostname()
	lead := fence.Lead{
		Elector: elections, Resource: "orders", Holder: host, Stores: []fence.Raiser{raiser},
		Again: func(err error, wait time.Duration) { log.Printf("leads no more: %v", err) },
	}
	err = lead.Repeat(ctx, func(ctx context.Context, term *fence.Term) error {
		return transfer(ctx, pool, raiser, term.Claim()) // ctx ends with the term
	})
	if err != nil {
		log.Print(err)
	}
}

func transfer(ctx context.Context, pool *pgxpool.Pool, r fence.Raiser, c fence.Claim) error {
	return pgstore.BeginFunc(ctx, pool, r, c, pgx.TxOptions{}, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "update account set balance = balance + 10 where owner = 'ann'")
		return err
	})
}
