package etcd_test

import (
	"context"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/etcd"
)

// A whole program: start it on several machines. One of them leads and works; when it is gone,
// another one does.
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
	if err := lead.Repeat(ctx, work); err != nil {
		log.Print(err)
	}
}

// work works as the leader. ctx ends with the term. The term's claim goes with every write: see
// packages pgstore and redisstore.
func work(ctx context.Context, term *fence.Term) error {
	log.Println("leads as", term.Claim())
	<-ctx.Done()
	return context.Cause(ctx)
}
