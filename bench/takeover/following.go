package takeover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/bench/internal/report"
	"github.com/ringfence/ringfence/bench/internal/rounds"
	"github.com/ringfence/ringfence/bench/internal/ways"
	"github.com/ringfence/ringfence/fence"
	elections "github.com/ringfence/ringfence/fence/postgres"
)

// The ways in which older sessions end.
const (
	byFollowing  = "following"  // a guard with a coordinator sees leadership move
	byConnecting = "connecting" // a guard without one hears of it from the new leader's first session
)

// endings measures how long older sessions go on after the new term has begun.
type endings struct {
	*ways.Postgres
	following   *ways.GuardProcess
	coordinator *elections.Coordinator
}

// ending is one row.
type ending struct {
	row   *report.Row
	older int
}

// measureEndings returns how many rows it has measured.
func measureEndings(
	ctx context.Context, r *report.Report, o report.Options, progress io.Writer,
) (n int, err error) {
	var rows []*ending
	for _, older := range []int{1, 100, 1000} {
		name := fmt.Sprintf("postgres ended older=%d", older)
		if o.Wants(name) {
			rows = append(rows, &ending{r.Row(report.Row{Name: name, Unit: "ms", Lower: true}), older})
		}
	}
	if len(rows) == 0 {
		return 0, nil
	}
	r.Note("ended: time from the new term to the end of the last older session at its client. " +
		"following: the guard follows the election (Postgres), and nobody connects. connecting: the " +
		"guard has no coordinator, and the new leader opens its first session at once.")
	e, err := startEndings(ctx, o)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, e.coordinator.Close(), e.Close()) }()
	for round := range o.Rounds {
		for _, c := range rounds.Turn(rows, round) {
			fmt.Fprintf(progress, "round %d of %d: %s\n", round+1, o.Rounds, c.row.Name)
			if err := e.measure(ctx, c, int64(2*round+1)); err != nil {
				return 0, fmt.Errorf("%s: %w", c.row.Name, err)
			}
		}
	}
	return len(rows), nil
}

func startEndings(ctx context.Context, o report.Options) (*endings, error) {
	p, err := ways.StartPostgres(ctx, ways.Options{
		Guard: o.Guard, Settings: map[string]string{"max_connections": "1200"},
	})
	if err != nil {
		return nil, err
	}
	e := &endings{Postgres: p}
	url := p.Server.URL("postgres", "postgres")
	e.coordinator, err = elections.Open(ctx, url, elections.Options{})
	if err == nil {
		e.following, err = p.NewGuard(ctx, map[string]string{"GUARD_COORDINATOR": url})
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return e, nil
}

// measure makes one change of leadership in each way, for a resource of its own.
func (e *endings) measure(ctx context.Context, c *ending, token int64) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	if err := e.follow(ctx, c); err != nil {
		return err
	}
	return e.connect(ctx, c, token)
}

// follow elects the next leader, which does not connect.
func (e *endings) follow(ctx context.Context, c *ending) error {
	r := fence.Resource(fmt.Sprintf("followed_%d", c.older))
	first, err := e.coordinator.Campaign(ctx, r, "first")
	if err != nil {
		return err
	}
	older, err := e.open(ctx, e.following, string(r), int64(first.Token()), c.older)
	defer older.close()
	if err != nil {
		return err
	}
	won := make(chan error, 1)
	var began time.Time
	go func() {
		next, err := e.coordinator.Campaign(ctx, r, "next")
		if began = time.Now(); err == nil {
			defer next.Resign(ctx)
			err = older.ended(ctx)
		}
		won <- err
	}()
	if err := pause(ctx); err != nil {
		return err
	}
	if err := first.Resign(ctx); err != nil {
		return err
	}
	if err := <-won; err != nil {
		return err
	}
	c.row.Add(byFollowing, older.last.Sub(began).Seconds()*1e3)
	return nil
}

// connect opens a session under the next token.
func (e *endings) connect(ctx context.Context, c *ending, token int64) error {
	resource := fmt.Sprintf("connected_%d", c.older)
	older, err := e.open(ctx, e.Guard, resource, token, c.older)
	defer older.close()
	if err != nil {
		return err
	}
	if err := pause(ctx); err != nil {
		return err
	}
	began := time.Now()
	next, err := pgconn.Connect(ctx, ways.PostgresURL(e.Guard.Postgres, resource, token+1))
	if err != nil {
		return err
	}
	defer next.Close(context.WithoutCancel(ctx))
	if err := older.ended(ctx); err != nil {
		return err
	}
	c.row.Add(byConnecting, older.last.Sub(began).Seconds()*1e3)
	return nil
}

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(rest):
		return nil
	}
}

// crowd is the older sessions. Each is watched until it ends.
type crowd struct {
	all      []*pgconn.PgConn
	watching sync.WaitGroup
	stop     context.CancelFunc

	mu   sync.Mutex
	last time.Time // when the last one so far has ended
}

// open opens so many sessions through a guard.
func (e *endings) open(
	ctx context.Context, g *ways.GuardProcess, resource string, token int64, n int,
) (*crowd, error) {
	watched, stop := context.WithCancel(ctx)
	o := &crowd{stop: stop}
	for range n {
		c, err := pgconn.Connect(ctx, ways.PostgresURL(g.Postgres, resource, token))
		if err != nil {
			return o, err
		}
		o.all = append(o.all, c)
		o.watching.Go(func() {
			_ = c.WaitForNotification(watched)
			o.mu.Lock()
			defer o.mu.Unlock()
			o.last = time.Now()
		})
	}
	return o, nil
}

// ended waits until every session has ended.
func (o *crowd) ended(ctx context.Context) error {
	done := make(chan struct{})
	go func() { defer close(done); o.watching.Wait() }()
	select {
	case <-done:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (o *crowd) close() {
	o.stop()
	o.watching.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, c := range o.all {
		_ = c.Close(ctx)
	}
}
