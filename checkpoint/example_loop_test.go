package checkpoint_test

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/pgjournal"
)

// Cursor is the state of an import: how far it has read, and the current batch.
type Cursor struct {
	Last  int   `json:"last"`
	Batch []int `json:"batch"`
}

// A loop: extract and load work through the source batch by batch. extract passes the batch to load
// in the state, so a leader that takes over in between loads the same batch. With Rounds:
// checkpoint.Forever the loop has no end.
func ExampleTask_rounds() {
	ctx := context.Background()
	d, err := deploy(ctx, `create table warehouse (id int)`)
	if err != nil {
		fmt.Println(err)
		return
	}
	extract := func(ctx context.Context, c Cursor, _ checkpoint.Key) (Cursor, error) {
		c.Batch = []int{c.Last + 1, c.Last + 2} // reading twice does no harm
		return c, nil
	}
	load := func(ctx context.Context, tx pgx.Tx, c Cursor) (Cursor, error) {
		for _, id := range c.Batch {
			if _, err := tx.Exec(ctx, `insert into warehouse values ($1)`, id); err != nil {
				return c, err
			}
			c.Last = id
		}
		c.Batch = nil
		return c, nil
	}
	done, err := run(ctx, d, "warehouse", checkpoint.Task[Cursor]{
		Name:   "import",
		Rounds: 3,
		Steps:  []checkpoint.Step[Cursor]{{Name: "extract", Run: extract}, pgjournal.Step("load", load)},
	})
	printError(err)
	fmt.Println(done.Status, "after round", done.Round, string(done.State))
	d.column(ctx, `select id::text from warehouse order by id`)
	// Output:
	// done after round 3 {"last":6,"batch":null}
	// 1, 2, 3, 4, 5, 6
}
