package pgstore_test

import (
	"context"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/postgres"
	"github.com/ringfence/ringfence/store/pgstore"
)

// A whole program: start it on several machines. One of them leads, and writes through the guard at
// guard:6432. When it is paused, killed or cut off, another one takes over, and nothing that the
// first one still sends has an effect.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	elections, err := postgres.Open(ctx, "postgres://elections@db/shop", postgres.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer elections.Close()

	host, _ := os.Hostname()
	lead := fence.Lead{Elector: elections, Resource: "orders", Holder: host}
	lead.Again = func(err error, wait time.Duration) { log.Printf("leads no more: %v", err) }
	if err := pgstore.Lead(ctx, lead, "postgres://app@guard:6432/shop", settle); err != nil {
		log.Print(err)
	}
}

// settle works as the leader. ctx ends with the term.
func settle(ctx context.Context, pool *pgxpool.Pool) error {
	_, err := pool.Exec(ctx, "update account set balance = balance + 10 where owner = 'ann'")
	return err
}
