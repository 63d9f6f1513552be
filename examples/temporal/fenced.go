// Package fenced runs Temporal activities under the fence: each attempt takes a token, and what an
// older attempt still writes is refused. docs/queues.md says what that gives and costs.
//
//	w := worker.New(c, "orders", worker.Options{
//		Interceptors: []interceptor.WorkerInterceptor{&fenced.Interceptor{Pool: pool}},
//	})
//
//	func (a *Activities) Book(ctx context.Context, merchant string) error {
//		tx, err := fenced.Begin(ctx, a.pool, pgx.TxOptions{}) // under the attempt's token
//		…
//	}
package fenced

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
)

// Interceptor lets each attempt of an activity take a token before the activity is called. Local
// activities have no numbers that put their attempts in order: they get none, and Begin fails in
// them.
type Interceptor struct {
	interceptor.WorkerInterceptorBase
	Pool *pgxpool.Pool

	// Attempt returns what an attempt leads, and its number. Nil: Attempt of this package. A later
	// attempt at the same resource must have a higher number. An activity that needs no token has no
	// resource.
	Attempt func(activity.Info) (resource string, number int64)
}

// Attempt makes each activity of a run of a workflow a resource of its own.
func Attempt(info activity.Info) (resource string, number int64) {
	if info.IsLocalActivity {
		return "", 0
	}
	id := sha256.Sum256(fmt.Append(nil, info.WorkflowExecution.RunID, " ", info.ActivityRunID, " ",
		info.ActivityID))
	return fmt.Sprintf("temporal_%x", id[:16]), int64(info.Attempt)
}

// InterceptActivity implements interceptor.WorkerInterceptor.
func (i *Interceptor) InterceptActivity(
	_ context.Context, next interceptor.ActivityInboundInterceptor,
) interceptor.ActivityInboundInterceptor {
	return &inbound{interceptor.ActivityInboundInterceptorBase{Next: next}, i}
}

type inbound struct {
	interceptor.ActivityInboundInterceptorBase
	*Interceptor
}

func (a *inbound) ExecuteActivity(
	ctx context.Context, in *interceptor.ExecuteActivityInput,
) (any, error) {
	attempt := a.Attempt
	if attempt == nil {
		attempt = Attempt
	}
	resource, number := attempt(activity.GetInfo(ctx))
	if resource == "" {
		return a.Next.ExecuteActivity(ctx, in)
	}
	pass, err := a.take(ctx, resource, number)
	if err != nil {
		return nil, fmt.Errorf("attempt %d of %s: %w", number, resource, err)
	}
	return a.Next.ExecuteActivity(context.WithValue(ctx, passKey{}, pass), in)
}

// take returns once the transactions of older attempts have ended.
func (i *Interceptor) take(
	ctx context.Context, resource string, number int64,
) (pass string, err error) {
	holder := uuid.NewString() // two processes never have one token
	for {
		var ready bool
		var refused *string
		err := i.Pool.QueryRow(ctx, "select pass, ready, refused from ringfence.take($1, $2, $3)",
			resource, holder, number).
			Scan(&pass, &ready, &refused)
		switch {
		case err != nil:
			return "", err
		case refused != nil:
			return "", errors.New(*refused)
		case ready:
			return pass, nil
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

type passKey struct{}

// Begin begins a transaction under the token of the attempt that ctx belongs to. It fails with
// SQLSTATE RF001 once a later attempt has taken its own.
func Begin(ctx context.Context, pool *pgxpool.Pool, o pgx.TxOptions) (pgx.Tx, error) {
	pass, ok := ctx.Value(passKey{}).(string)
	if !ok {
		return nil, errors.New("this context is of no fenced attempt: nothing was written")
	}
	tx, err := pool.BeginTx(ctx, o)
	if err != nil {
		return nil, err
	}
	if _, err := tx.Exec(ctx, "select ringfence.enter($1)", pass); err != nil {
		_ = tx.Rollback(ctx)
		return nil, err
	}
	return tx, nil
}
