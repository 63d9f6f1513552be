package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/lab/flaw"
	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/scenario"
)

// ledger leads again and again until ctx ends.
func (w *worker) ledger(
	ctx context.Context, coordinator elector.Coordinator, e *recordingElector,
) error {
	stores := w.raisers(coordinator)
	defer closeRaisers(stores)
	lead := fence.Lead{
		Elector: e, Resource: scenario.Resource, Holder: w.c.Name, Stores: stores,
	}
	for ctx.Err() == nil {
		err := lead.Run(ctx, func(_ context.Context, term *fence.Term) error {
			w.term(history.Ready, term.Claim(), "")
			return w.keepLedgers(ctx, term.Claim(), term, lead.Stores)
		})
		elected := e.leave() != nil
		if ctx.Err() != nil {
			break
		}
		if !elected {
			return err // a refusal by the coordinator that retrying cannot fix
		}
		if err := ignoreLost(err); err != nil {
			w.note("the term has ended: %v", err)
			pause(ctx, retry)
		}
	}
	return nil
}

// errUnhealthy ends a term in which nothing is acknowledged any more.
var errUnhealthy = errors.New("nothing was acknowledged for too long")

// keepLedgers writes to its ledgers until ctx or the term ends; a reckless worker writes beyond
// its term. The term is nil for Commands. stores raise marks that are lost, if no guard does.
func (w *worker) keepLedgers(
	ctx context.Context, claim fence.Claim, term *fence.Term, stores []fence.Raiser,
) error {
	writers, closeAll, err := w.writers(claim, term)
	if err != nil {
		return err
	}
	defer closeAll()
	both, quit := errgroup.WithContext(ctx)
	for store, writer := range writers {
		l := &writeLoop{
			w: w, store: store, writer: writer, token: claim.Token, term: term,
			good: w.isGood(term),
		}
		if w.c.Route == scenario.Embedded || w.c.Raise != "" && store == "postgres" {
			l.raiser = raiserOf(stores, store)
		}
		both.Go(func() error { return l.run(quit) })
	}
	err = both.Wait()
	if errors.Is(err, errUnhealthy) && term != nil {
		w.note("resigns: %v", err)
		return w.resign(ctx, term)
	}
	return err
}

// writers opens the ledgers of both stores. On the path SQL there is only Postgres.
func (w *worker) writers(
	claim fence.Claim, term *fence.Term,
) (all map[string]writer, closeAll func(), err error) {
	if w.c.Route == scenario.SQL {
		pg, err := w.ledgerSQL(claim)
		if err != nil {
			return nil, nil, err
		}
		return map[string]writer{"postgres": pg}, pg.close, nil
	}
	pg, err := w.postgres(claim, term)
	if err != nil {
		return nil, nil, err
	}
	rdb, err := w.redis(claim, term)
	if err != nil {
		pg.close()
		return nil, nil, err
	}
	return map[string]writer{"postgres": pg, "redis": rdb}, func() { rdb.close(); pg.close() }, nil
}

// isGood reports whether the worker stops with its term.
func (w *worker) isGood(term *fence.Term) bool {
	return term != nil && w.c.Manners == scenario.Good
}

// resign gives up the term before the pools are closed: over a cut link pgx needs 15 s to close
// them, and nobody else could lead.
func (w *worker) resign(ctx context.Context, term *fence.Term) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.c.Deadline)
	defer cancel()
	if err := term.Resign(ctx); err != nil {
		w.note("the coordinator does not know: %v", err)
	}
	return nil
}

// writer makes one write at a time in one store.
type writer interface {
	// write adds an entry within the deadline of an operation and returns the outcome. It ends
	// early with ctx.
	write(ctx context.Context, op string, token fence.Token) result
	close()
}

// writeLoop writes to one store in one term. Without a term (Commands) only refusals end it.
type writeLoop struct {
	w      *worker
	store  string
	writer writer
	token  fence.Token // in the entries
	term   *fence.Term
	raiser fence.Raiser // raises a lost mark if no guard does; may be nil
	good   bool

	acked time.Time // the last acknowledgement, or the start
	since time.Time // when the loop found the term lost
	tried time.Time // the same, or the last write after it that could not be tried
	late  int       // writes since then
	stale int       // refusals
}

func (s *writeLoop) run(ctx context.Context) error {
	s.acked = time.Now()
	for ctx.Err() == nil && !s.over(ctx) {
		r := s.once(ctx)
		if err := s.judge(r); err != nil {
			return err
		}
		wait := s.w.c.Pause
		if r.outcome != history.OK && s.since.IsZero() {
			wait = max(wait, 20*time.Millisecond) // a failed write is not retried in a tight loop
		}
		pause(ctx, wait)
	}
	return nil
}

// over reports whether the loop ends: a good one when the term is lost, a reckless one when it was
// refused often enough, or when nothing refused it for long enough.
func (s *writeLoop) over(ctx context.Context) bool {
	switch {
	case s.term == nil:
		return s.stale >= refusals
	case s.term.State() != fence.Lost && s.good:
		s.wait(ctx)
		return s.term.State() == fence.Lost
	case s.term.State() != fence.Lost:
		return false
	case s.good:
		return true
	case s.since.IsZero():
		s.since = time.Now()
		s.tried = s.since
	}
	if s.w.c.Route == scenario.Direct || s.w.c.Flaw == flaw.NoEnter {
		return s.late >= lateWrites || time.Since(s.since) > lateDirect
	}
	return s.stale >= refusals || time.Since(s.tried) > maxLate || time.Since(s.since) > lateReach
}

// How long a reckless leader keeps writing.
const (
	refusals   = 3                // until so many refusals
	maxLate    = 2 * time.Second  // if nothing refuses it
	lateReach  = 10 * time.Second // if it cannot reach the store, such as while a guard starts
	lateWrites = 40               // without a fence: the most writes
	lateDirect = time.Second      // without a fence: the longest time
)

// wait makes a good leader's next write wait for the coordinator.
func (s *writeLoop) wait(ctx context.Context) {
	if s.term.State() == fence.Suspended && s.term.Wait(ctx) == nil {
		s.acked = time.Now()
	}
}

// once does and records one operation.
func (s *writeLoop) once(ctx context.Context) result {
	base := context.WithoutCancel(ctx) // an operation is finished even if the process has to end
	if s.good && s.term != nil {
		base = s.term.Context()
	}
	r := s.w.record(history.Event{
		Process: s.w.c.Name + "/" + s.store, Op: s.w.op(s.store[:1]), Do: history.Write,
		Store: s.store, Token: s.token,
	}, func(op string) result { return s.writer.write(base, op, s.token) })
	if !s.since.IsZero() {
		s.late++
	}
	if s.raiser != nil && errors.Is(r.err, fence.ErrNotRaised) {
		s.raise(base)
	}
	return r
}

// raise raises a mark that the store has lost. The next write shows whether it worked.
func (s *writeLoop) raise(ctx context.Context) {
	if err := s.raiser.Raise(ctx, s.term.Claim()); errors.Is(err, fence.ErrStale) {
		s.term.Supersede(err)
	}
}

// judge handles an outcome. An error ends both loops.
func (s *writeLoop) judge(r result) error {
	if r.outcome == history.Failed {
		s.tried = time.Now()
	}
	switch {
	case r.outcome == history.OK:
		s.acked = time.Now()
	case r.outcome == history.Stale:
		s.stale++
		if s.term != nil {
			s.term.Supersede(r.err)
		}
	case s.w.c.Health > 0 && time.Since(s.acked) > s.w.c.Health:
		return fmt.Errorf("%w: %s: for %s; last: %s",
			errUnhealthy, s.store, s.w.c.Health, r.text())
	}
	return nil
}
