package redisstore_test

import (
	"context"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/etcd"
	"github.com/ringfence/ringfence/store/redisstore"
)

// A whole program: start it on several machines. One of them leads, and writes through the guard at
// guard:7379. When it is paused, killed or cut off, another one takes over, and nothing that the
// first one still sends has an effect.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	elections, err := etcd.Open(ctx, "etcd://etcd1:2379,etcd2:2379,etcd3:2379/shop", etcd.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer elections.Close()

	host, _ := os.Hostname()
	lead := fence.Lead{Elector: elections, Resource: "orders", Holder: host}
	lead.Again = func(err error, wait time.Duration) { log.Printf("leads no more: %v", err) }
	if err := redisstore.Lead(ctx, lead, "redis://app@guard:7379", count); err != nil {
		log.Print(err)
	}
}

// count works as the leader. ctx ends with the term.
func count(ctx context.Context, db *redis.Client) error {
	return db.IncrBy(ctx, "balance:ann", 10).Err()
}
