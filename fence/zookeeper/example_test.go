package zookeeper_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/zookeeper"
	"github.com/ringfence/ringfence/store/pgstore"
)

// A complete leader program. It waits until it wins the election, raises the mark in the database,
// works while it leads, and resigns. Start it on several machines.
//
// Here each transaction carries the token. Behind a guard, pgstore.NewPool makes connections that
// carry it, and transactions begin as usual.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ensemble, database := servers(ctx) // zk://zk1:2181,zk2:2181/ringfence, postgres://app@db/shop

	coordinator, err := zookeeper.Open(ctx, ensemble, zookeeper.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer coordinator.Close()
	pool, err := pgxpool.New(ctx, database)
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	raiser := pgstore.NewRaiser(database, coordinator)
	defer raiser.Close()
	lead := fence.Lead{
		Elector:  coordinator,
		Resource: "orders",
		Holder:   "billing-7",
		Stores:   []fence.Raiser{raiser},
	}
	err = lead.Run(ctx, func(ctx context.Context, term *fence.Term) error {
		queue, err := coordinator.Candidates(ctx, "orders")
		if err != nil {
			return err
		}
		fmt.Println("the leader is", queue[0].Holder)
		return transfer(ctx, pool, term.Claim()) // ctx ends with the term
	})
	fmt.Println("the term has ended:", err)
	// Output:
	// the leader is billing-7
	// the balance is 110
	// the term has ended: <nil>
}

func transfer(ctx context.Context, pool *pgxpool.Pool, c fence.Claim) error {
	tx, err := pgstore.Begin(ctx, pool, c, pgx.TxOptions{})
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx)
	var balance int
	row := tx.QueryRow(ctx, "update account set balance = balance + 10 returning balance")
	if err := row.Scan(&balance); err != nil {
		return err
	}
	fmt.Println("the balance is", balance)
	return tx.Commit(ctx)
}
