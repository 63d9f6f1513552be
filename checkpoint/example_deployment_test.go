package checkpoint_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/pgjournal"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/zookeeper"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
	"github.com/ringfence/ringfence/store/pgstore"
)

// deployment is what a user already has: a ZooKeeper, and a database in which guard install has
// made the schema.
type deployment struct {
	database    string // URL
	coordinator string // URL
}

func deploy(ctx context.Context, tables string) (d deployment, err error) {
	pg, err := serverstest.ExamplePostgres(ctx)
	if err != nil {
		return d, err
	}
	zk, err := serverstest.ExampleZooKeeper(ctx)
	if err != nil {
		return d, err
	}
	name := "example_" + strings.ToLower(rand.Text())
	d = deployment{pg.URL("postgres", name), "zk://" + zk.Addr() + "/" + name}
	if err := execute(ctx, pg.URL("postgres", "postgres"), "create database "+name); err != nil {
		return d, err
	}
	if err := execute(ctx, d.database, tables); err != nil {
		return d, err
	}
	return d, pgmarks.Install(ctx, d.database, "", "postgres")
}

func execute(ctx context.Context, url, sql string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.PgConn().Exec(ctx, sql).ReadAll()
	return err
}

// column prints one column.
func (d deployment) column(ctx context.Context, sql string) {
	conn, err := pgx.Connect(ctx, d.database)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, sql)
	if err != nil {
		fmt.Println(err)
		return
	}
	values, err := pgx.CollectRows(rows, pgx.RowTo[string])
	printError(err)
	fmt.Println(strings.Join(values, ", "))
}

// printError prints err unless it is nil.
func printError(err error) {
	if err != nil {
		fmt.Println(err)
	}
}

// run is the main function of a program that runs a task. Start it on several machines.
func run[S any](
	ctx context.Context, d deployment, resource fence.Resource, task checkpoint.Task[S],
) (checkpoint.Checkpoint, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	coordinator, err := zookeeper.Open(ctx, d.coordinator, zookeeper.Options{})
	if err != nil {
		return checkpoint.Checkpoint{}, err
	}
	defer coordinator.Close()
	pool, err := pgxpool.New(ctx, d.database)
	if err != nil {
		return checkpoint.Checkpoint{}, err
	}
	defer pool.Close()
	raiser := pgstore.NewRaiser(d.database, nil)
	defer raiser.Close()
	j := pgjournal.New(pool, pgjournal.Options{Raiser: raiser})
	defer j.Close()
	return checkpoint.Runner[S]{
		Lead:     fence.Lead{Elector: coordinator, Resource: resource, Holder: "example"},
		Journal:  j,
		Observer: coordinator,
		Task:     task,
	}.Run(ctx)
}
