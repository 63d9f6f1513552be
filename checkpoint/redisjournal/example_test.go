package redisjournal_test

import (
	"context"
	"log"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/redisjournal"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/etcd"
	"github.com/ringfence/ringfence/store/redisstore"
)

// A task that keeps its checkpoint in Redis, with elections in etcd. The raiser goes through a
// guard; the journal's own connection goes to the server.
func Example() {
	ctx := context.Background()
	coordinator, err := etcd.Open(ctx, "etcd://e1:2379,e2:2379,e3:2379/ringfence", etcd.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer coordinator.Close()
	raiser := redisstore.NewRaiser("redis://guard:7379", coordinator)
	defer raiser.Close()
	journal, err := redisjournal.Open(ctx, "redis://app:password@cache.internal:6379/0",
		redisjournal.Options{Raiser: raiser})
	if err != nil {
		log.Fatal(err)
	}
	defer journal.Close()

	lead := fence.Lead{Elector: coordinator, Resource: "cache", Holder: "host-1"}
	_, err = checkpoint.RunTask(ctx, lead, journal, "rebuild-2026-11-21",
		checkpoint.Do("rebuild", rebuild))
	if err != nil {
		log.Fatal(err)
	}
}

func rebuild(_ context.Context, done int, _ checkpoint.Key) (int, error) { return done + 1, nil }
