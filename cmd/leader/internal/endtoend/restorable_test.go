package endtoend

import (
	"context"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/internal/coordinators"
	"github.com/ringfence/ringfence/internal/settings"
	"github.com/ringfence/ringfence/internal/test/elections"
	"github.com/ringfence/ringfence/internal/test/must"
)

// restorable is a coordinator that can go back to a backup.
type restorable struct {
	elections.Restored
	t testing.TB
}

// onEveryRestorable runs a test with each coordinator that gives out numbers a second time after a
// restore.
func onEveryRestorable(t *testing.T, test func(*testing.T, *restorable)) {
	for name, coordinator := range elections.Coordinators {
		for way, start := range coordinator.Restored {
			t.Run(name+", "+way, func(t *testing.T) {
				t.Parallel()
				test(t, &restorable{start(t), t})
			})
		}
	}
}

func (r *restorable) open(ctx context.Context) documents.Coordinator {
	r.t.Helper()
	co, err := coordinators.All.Open(ctx, settings.URL(r.URL),
		coordinators.Options{SessionTimeout: longSession})
	must.Succeed(r.t, err)
	r.t.Cleanup(func() { _ = co.Close() })
	return co
}

// win returns a term of orders and its coordinator.
func (r *restorable) win(ctx context.Context, holder string) (documents.Coordinator, *fence.Term) {
	r.t.Helper()
	co := r.open(ctx)
	return co, campaign(ctx, r.t, co, "orders", holder)
}

func campaign(
	ctx context.Context, t testing.TB, co fence.Elector, resource fence.Resource, holder string,
) *fence.Term {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	term, err := co.Campaign(ctx, resource, holder)
	must.Succeed(t, err)
	return term
}

// backUp makes a backup that has the issuer and an election in which nobody stands. Then it uses up
// numbers, so that the next ones are above the first ones after a restore.
func (r *restorable) backUp(ctx context.Context) {
	r.t.Helper()
	co, term := r.win(ctx, "before the backup")
	// Its session, too, is not in the backup: the end of one uses up a number.
	if err := term.Resign(ctx); err != nil {
		r.t.Fatal(err)
	}
	if err := co.Close(); err != nil {
		r.t.Fatal(err)
	}
	if err := r.Backup(ctx); err != nil {
		r.t.Fatal(err)
	}
	const someSessions = 50 // Postgres skips 32 numbers after a crash
	count := r.Connect(r.t)
	for range someSessions {
		_, err := count(ctx)
		must.Succeed(r.t, err)
	}
}

// countTo uses up numbers, as other elections do, until n is next. It returns false if n is gone.
func (r *restorable) countTo(ctx context.Context, n fence.Token) bool {
	r.t.Helper()
	count := r.Connect(r.t)
	for {
		at, err := count(ctx)
		must.Succeed(r.t, err)
		if at >= n-1 {
			return at == n-1
		}
	}
}

// namesake restores the coordinator, and returns a term of orders that has an earlier leader's
// number.
func (r *restorable) namesake(
	ctx context.Context, n fence.Token,
) (documents.Coordinator, *fence.Term) {
	r.t.Helper()
	for ctx.Err() == nil {
		if err := r.Restore(ctx); err != nil {
			r.t.Fatal(err)
		}
		co := r.open(ctx)
		campaign(ctx, r.t, co, "others", "somebody") // so that its session is open
		if r.countTo(ctx, n) {
			if term := campaign(ctx, r.t, co, "orders", "namesake"); term.Token() == n {
				return co, term
			}
		}
		_ = co.Close() // another session ended or began meanwhile, and used up the number
	}
	r.t.Fatalf("nobody got %s", n)
	return nil, nil
}
