package redisstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/fencetest"
	"github.com/ringfence/ringfence/store/redisstore"
)

func TestLeadMakesAClientForEachTermUntilTheWorkIsDone(t *testing.T) {
	t.Parallel()
	b, guard := guarded(t)
	elections := fencetest.NewMemory(time.Minute).Open()
	defer elections.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	lead := fence.Lead{Elector: elections, Resource: "orders", Holder: "one"}
	var clients []*driver.Client
	work := func(ctx context.Context, db *driver.Client) error {
		clients = append(clients, db)
		if err := db.RPush(ctx, "ledger", len(clients)).Err(); err != nil || len(clients) == 2 {
			return err
		}
		name, err := db.ClientGetName(ctx).Result() // fence.orders.TOKEN
		if err != nil {
			return err
		}
		mark, err := fence.ParseToken(strings.TrimPrefix(name, "fence.orders."))
		if err != nil {
			return err
		}
		if _, err := elections.Depose(ctx, "orders", mark); err != nil {
			return err
		}
		<-ctx.Done()
		err = db.RPush(context.WithoutCancel(ctx), "ledger", "late").Err()
		if !errors.Is(err, fence.ErrLost) {
			t.Errorf("after the term: %v", err)
		}
		return err
	}
	if err := redisstore.Lead(ctx, lead, "redis://"+guard, work); err != nil || len(clients) != 2 {
		t.Errorf("%d terms: %v", len(clients), err)
	}
	if n := b.do(t, "LLEN", "ledger"); n != int64(2) {
		t.Errorf("%v entries", n)
	}
	if err := clients[1].Ping(ctx).Err(); err == nil {
		t.Error("the last client is open")
	}
}

func TestLeadRefusesARedisWithoutAGuard(t *testing.T) {
	t.Parallel()
	b, _ := guarded(t)
	elections := fencetest.NewMemory(time.Minute).Open()
	defer elections.Close()
	lead := fence.Lead{Elector: elections, Resource: "orders", Holder: "one"}
	err := redisstore.Lead(t.Context(), lead, b.server.URL(),
		func(ctx context.Context, db *driver.Client) error {
			return db.RPush(ctx, "ledger", "direct").Err()
		})
	if _, ok := errors.AsType[*fence.SetupError](err); !ok {
		t.Errorf("%v", err)
	}
	if n := b.do(t, "LLEN", "ledger"); n != int64(0) {
		t.Errorf("%v entries", n)
	}
}
