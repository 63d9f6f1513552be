package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/pgjournal"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/zookeeper"
	"github.com/ringfence/ringfence/store/pgstore"
)

// Count is the state of the task: how many rows are booked.
type Count struct {
	Booked int `json:"booked"`
}

// A task of two steps in a program that runs on two machines. The first machine is shut down in the
// second step. The other one continues there; the first step does not run again.
func ExampleRunner() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	d, err := deploy(ctx, "create table ledger (amount int)") // the URLs of ZooKeeper and Postgres
	if err != nil {
		log.Fatal(err)
	}
	coordinator, err := zookeeper.Open(ctx, d.coordinator, zookeeper.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer coordinator.Close()
	pool, err := pgxpool.New(ctx, d.database)
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	raiser := pgstore.NewRaiser(d.database, nil)
	defer raiser.Close()
	j := pgjournal.New(pool, pgjournal.Options{Raiser: raiser})
	defer j.Close()

	host1, shutDown := context.WithCancelCause(ctx)
	book := func(ctx context.Context, tx pgx.Tx, c Count) (Count, error) {
		fmt.Println("booking")
		tag, err := tx.Exec(ctx, "insert into ledger values (10), (20)")
		c.Booked = int(tag.RowsAffected())
		return c, err
	}
	report := func(ctx context.Context, c Count, key checkpoint.Key) (Count, error) {
		fmt.Println("reporting", c.Booked, "rows under", key)
		if host1.Err() == nil {
			shutDown(errors.New("host-1 is shut down"))
			<-ctx.Done()
		}
		return c, context.Cause(ctx)
	}
	runner := checkpoint.Runner[Count]{
		Lead:    fence.Lead{Elector: coordinator, Resource: "ledger", Holder: "host-1"},
		Journal: j,
		Task: checkpoint.Task[Count]{
			Name:  "settlement-2026-11-21",
			Steps: []checkpoint.Step[Count]{pgjournal.Step("book", book), {Name: "report", Run: report}},
		},
	}

	_, err = runner.Run(host1)
	fmt.Println(err)
	runner.Lead.Holder = "host-2" // another process
	done, err := runner.Run(ctx)
	fmt.Println(done.Holder, done.Status, err)
	// Output:
	// booking
	// reporting 2 rows under settlement-2026-11-21/1/1/report
	// host-1 is shut down
	// reporting 2 rows under settlement-2026-11-21/1/1/report
	// host-2 done <nil>
}
