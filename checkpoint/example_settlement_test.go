package checkpoint_test

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/pgjournal"
)

// Settlement is the state of a task: JSON at rest, so every field that the next step needs is
// exported.
type Settlement struct {
	Booked int `json:"booked"`
	Sent   int `json:"sent"`
}

// A nightly settlement. Booking is a synchronous step: its rows, the state and the next step are
// committed in one transaction, so each row is booked once, whichever leader dies at whatever
// point. Mail cannot be rolled back. So the first step only writes it to an outbox table, and an
// asynchronous step sends it, with a key by which the mail service recognizes a repetition.
func Example_settlement() {
	ctx := context.Background()
	d, err := deploy(ctx, `create table booking (customer text, amount int);
		create table outbox (customer text, sent bool default false)`)
	if err != nil {
		fmt.Println(err)
		return
	}
	book := func(ctx context.Context, tx pgx.Tx, s Settlement) (Settlement, error) {
		tag, err := tx.Exec(ctx, `insert into booking values ('ann', 10), ('bob', 20)`)
		if err != nil {
			return s, err
		}
		s.Booked = int(tag.RowsAffected())
		_, err = tx.Exec(ctx, `insert into outbox select customer from booking`)
		return s, err
	}
	send := func(ctx context.Context, s Settlement, key checkpoint.Key) (Settlement, error) {
		fmt.Println("sending under", key) // a real service gets the key and sends once for each key
		s.Sent = s.Booked
		return s, nil
	}
	settle := checkpoint.Task[Settlement]{
		Name: "settlement-2026-11-21",
		Steps: []checkpoint.Step[Settlement]{
			pgjournal.Step("book", book),
			{Name: "send", Run: send},
		},
	}
	done, err := run(ctx, d, "settlement", settle)
	printError(err)
	fmt.Println(done.Status, string(done.State))
	d.column(ctx, `select customer from booking`)

	// Another process finds it done. Nothing runs again.
	again, err := run(ctx, d, "settlement", settle)
	printError(err)
	fmt.Println(again.Status, again.Version == done.Version)
	// Output:
	// sending under settlement-2026-11-21/1/1/send
	// done {"booked":2,"sent":2}
	// ann, bob
	// done true
}
