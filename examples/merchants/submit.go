package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/jobs/job"
)

// kind is the kind of a job that settles one merchant.
const kind = "settle"

// settlement is what such a job is about.
type settlement struct {
	Merchant string `json:"merchant"`
	Day      string `json:"day"` // orders of earlier days are settled
}

func (s settlement) String() string { return s.Day + "-" + s.Merchant }

// submit submits a job for each merchant with open orders, and waits until all have ended. It
// reads only, so it needs no fence. Run it again whenever you like: a settlement that has been made
// is not made again.
func submit(ctx context.Context, queue *jobs.Queue, database, day string) error {
	if _, err := time.Parse(time.DateOnly, day); err != nil {
		return err
	}
	merchants, err := open(ctx, database, day)
	if err != nil {
		return err
	}
	var ids []job.ID
	for _, m := range merchants {
		s := settlement{Merchant: m, Day: day}
		id, err := jobs.Submit(ctx, queue, kind, s, s.spec())
		if err != nil {
			return err
		}
		ids = append(ids, id)
	}
	var failed []error
	for _, id := range ids {
		end, err := queue.Wait(ctx, id)
		switch {
		case err != nil:
			return err
		case end.State != job.Done:
			failed = append(failed, fmt.Errorf("%s is %s: %s", id, end.State, end.Error))
		}
	}
	fmt.Printf("%d of %d merchants are settled\n", len(ids)-len(failed), len(ids))
	return errors.Join(failed...)
}

// spec says how a settlement is run. Its resource is the merchant, so no two jobs ever book one
// merchant at once, whatever they are about.
func (s settlement) spec() job.Spec {
	return job.Spec{
		Retries: 5, Timeout: job.Duration(10 * time.Minute),
		Resource: fence.Resource("merchant_" + strings.ToLower(s.Merchant)),
		Unique:   s.String(),
	}
}

// open lists the merchants with open orders.
func open(ctx context.Context, database, day string) ([]string, error) {
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	rows, err := conn.Query(ctx, `select distinct merchant from orders
		where settlement is null and day < $1::text::date order by merchant`, day)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
