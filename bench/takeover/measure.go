package takeover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ringfence/ringfence/bench/internal/report"
	"github.com/ringfence/ringfence/bench/internal/rounds"
	"github.com/ringfence/ringfence/bench/internal/ways"
)

// cases are the numbers of older sessions, with the bars in milliseconds (DESIGN.md, section 7: 5
// ms, 50 ms and 500 ms with 1, 100 and 1,000).
var cases = []struct {
	older int
	bar   float64
}{{0, 5}, {1, 5}, {100, 50}, {1000, 500}}

// states are what the older sessions do.
var states = []string{"idle", "writing"}

// database opens sessions through guards.
type database interface {
	// open opens a session through the guard with this number, under the token. If it writes, it has
	// an open transaction with a write.
	open(ctx context.Context, guard int, token int64, writes bool) (session, error)
	// login opens a session without a guard.
	login(ctx context.Context) (session, error)
	// check returns an error if one of the older sessions does not end, or has left a write.
	check(ctx context.Context, older []session) error
	io.Closer
}

// session is open until it is closed.
type session interface{ close() }

// cell is one row.
type cell struct {
	row    *report.Row
	db     database
	direct database // with direct sessions; nil if there are none
	older  int
	writes bool
	guards int
}

// rest is the pause before each measurement, in which guard and server finish
// the logins. A leader is not replaced the moment after it has opened a thousand sessions.
const rest = 300 * time.Millisecond

// atOnce is how many of the older sessions are opened at once.
const atOnce = 16

func measure(
	ctx context.Context, o report.Options, progress io.Writer,
) (r *report.Report, err error) {
	r = report.New("take-over", o)
	r.Note("Time from the connection of the new leader's first session until it is admitted. " +
		"writing: each older session has an open transaction with a write, or a MULTI with a queued " +
		"one. After each take-over the benchmark checks that the older sessions end and have left no " +
		"write.")
	var cells []*cell
	for _, database := range databases {
		some, failed := database.cells(ctx, r, o)
		if failed != nil {
			return nil, failed
		}
		if len(some) > 0 {
			defer func() { err = errors.Join(err, some[0].db.Close()) }()
		}
		cells = append(cells, some...)
	}
	endings, err := measureEndings(ctx, r, o, progress)
	if err != nil {
		return nil, err
	}
	if len(cells)+endings == 0 {
		return nil, errors.New("no row has such a name")
	}
	token := int64(1)
	for round := range o.Rounds {
		for _, c := range rounds.Turn(cells, round) {
			fmt.Fprintf(progress, "round %d of %d: %s\n", round+1, o.Rounds, c.row.Name)
			if err := c.measure(ctx, token); err != nil {
				return nil, fmt.Errorf("%s: %w", c.row.Name, err)
			}
			token += 2
		}
	}
	return r, nil
}

// kind is a database that can be measured.
type kind struct {
	name  string
	start func(ctx context.Context, o report.Options) (database, error)
}

var databases = []kind{{"postgres", startPostgres}, {"redis", startRedis}}

// cells returns the rows of a database that the flags choose. It starts the database if there is
// one.
func (k kind) cells(
	ctx context.Context, r *report.Report, o report.Options,
) (cells []*cell, err error) {
	for _, guards := range []int{1, 2} {
		for _, state := range states {
			for _, c := range cases {
				name := fmt.Sprintf("%s older=%d %s guards=%d", k.name, c.older, state, guards)
				if !o.Wants(name) || c.older == 0 && (guards > 1 || state != states[0]) {
					continue
				}
				cells = append(cells, &cell{
					row: r.Row(report.Row{Name: name, Unit: "ms", Lower: true, Bar: &report.Bar{
						Way: ways.Guard, Limit: c.bar,
					}}),
					older: c.older, writes: state == "writing", guards: guards,
				})
			}
		}
	}
	if len(cells) == 0 {
		return nil, nil
	}
	db, err := k.start(ctx, o)
	var sessions database
	if p, ok := db.(*postgres); ok && p.HasSessions() {
		sessions = &direct{postgres: p}
	}
	for _, c := range cells {
		c.db = db
		if c.guards == 1 {
			c.direct = sessions
		}
	}
	return cells, err
}

// measure makes a take-over in each way.
func (c *cell) measure(ctx context.Context, token int64) error {
	if c.older == 0 { // every way has at least this login
		login, err := c.timed(ctx, ways.Direct, c.db.login)
		if err != nil {
			return err
		}
		login.close()
	}
	err := c.takeOver(ctx, ways.Guard, c.db, token)
	if err == nil && c.direct != nil {
		err = c.takeOver(ctx, ways.Session, c.direct, token)
	}
	return err
}

// takeOver makes one: the older sessions have the token, the newcomer the next.
func (c *cell) takeOver(ctx context.Context, way string, db database, token int64) error {
	older, err := c.openOlder(ctx, db, token)
	defer func() {
		for _, s := range older {
			s.close()
		}
	}()
	if err != nil {
		return err
	}
	newcomer, err := c.timed(ctx, way, func(ctx context.Context) (session, error) {
		return db.open(ctx, 0, token+1, false)
	})
	if err != nil {
		return err
	}
	defer newcomer.close()
	return db.check(ctx, older)
}

// timed opens a session after a rest, and adds the time that this takes to the row.
func (c *cell) timed(
	ctx context.Context, way string, open func(context.Context) (session, error),
) (session, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(rest):
	}
	start := time.Now()
	s, err := open(ctx)
	took := time.Since(start)
	if err == nil {
		c.row.Add(way, took.Seconds()*1e3)
	}
	return s, err
}

// openOlder opens the older sessions, spread over the guards. It returns also those that it has
// opened before an error.
func (c *cell) openOlder(
	ctx context.Context, db database, token int64,
) ([]session, error) {
	all := make([]session, c.older)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i := range all {
		g.Go(func() (err error) {
			all[i], err = db.open(ctx, i%c.guards, token, c.writes)
			return err
		})
	}
	err := g.Wait()
	var open []session
	for _, s := range all {
		if s != nil {
			open = append(open, s)
		}
	}
	return open, err
}
