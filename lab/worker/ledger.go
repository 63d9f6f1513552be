package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lab"
	"github.com/ringfence/ringfence/lab/history"
)

// ledger leads again and again until ctx ends.
func (w *worker) ledger(ctx context.Context, coordinator fence.Coordinator, s *stand) error {
	lead := fence.Lead{Elector: s, Resource: lab.Resource, Holder: w.c.Name, Stores: w.raisers(coordinator)}
	for ctx.Err() == nil {
		err := lead.Run(ctx, func(_ context.Context, term *fence.Term) error { return w.work(ctx, term, lead.Stores) })
		elected := s.leave() != nil
		if ctx.Err() != nil {
			break
		}
		if !elected {
			return err // a refusal of the coordinator that waiting cannot mend
		}
		if err := unless(err); err != nil {
			w.note("the term has ended: %v", err)
			pause(ctx, retry)
		}
	}
	return nil
}

// errUnhealthy ends a term in which nothing is acknowledged any more.
var errUnhealthy = errors.New("nothing was acknowledged for too long")

// work keeps both ledgers until ctx ends, or the term does, as far as the worker's manners let that matter.
func (w *worker) work(ctx context.Context, term *fence.Term, stores []fence.Raiser) error {
	w.term(history.Ready, term.Claim(), "")
	pg, err := w.postgres(term, w.c.Manners)
	if err != nil {
		return err
	}
	defer pg.close()
	rdb, err := w.redis(term, w.c.Manners)
	if err != nil {
		return err
	}
	defer rdb.close()
	both, quit := errgroup.WithContext(ctx)
	for _, s := range []*stint{{store: "postgres", writer: pg}, {store: "redis", writer: rdb}} {
		s.w, s.term, s.token, s.good = w, term, term.Token(), w.c.Manners == lab.Good
		if w.c.Route == lab.Embedded {
			s.raiser = raiserOf(stores, s.store)
		}
		both.Go(func() error { return s.run(quit) })
	}
	err = both.Wait()
	if errors.Is(err, errUnhealthy) {
		w.note("resigns: %v", err)
		return w.resign(ctx, term)
	}
	return err
}

// resign gives the term up before pools are closed: over a link that is cut that takes pgx 15 s, and nobody else could lead.
func (w *worker) resign(ctx context.Context, term *fence.Term) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.c.Deadline)
	defer cancel()
	if err := term.Resign(ctx); err != nil {
		w.note("the coordinator could not be told: %v", err)
	}
	return nil
}

// writer makes one write at a time in one store.
type writer interface {
	// write leaves an entry, within the deadline of an operation, and tells what became of it. It ends early with ctx.
	write(ctx context.Context, op string, token fence.Token) result
	close()
}

// stint is the loop of one store in one term. Without a term (Commands) it ends with refusals alone.
type stint struct {
	w      *worker
	store  string
	writer writer
	token  fence.Token // that entries name
	term   *fence.Term
	raiser fence.Raiser // raises the mark anew where no guard does; may be nil
	good   bool

	acked time.Time // the last acknowledgement, or the start
	since time.Time // when the loop found the term lost
	tried time.Time // that, or the last write after it that has not come as far as to a refusal
	late  int       // writes since then
	stale int       // refusals
}

func (s *stint) run(ctx context.Context) error {
	s.acked = time.Now()
	for ctx.Err() == nil && !s.over(ctx) {
		r := s.once(ctx)
		if err := s.judge(r); err != nil {
			return err
		}
		wait := s.w.c.Pause
		if r.outcome != history.OK && s.since.IsZero() {
			wait = max(wait, 20*time.Millisecond) // it is tried again, and not as fast as the machine can
		}
		pause(ctx, wait)
	}
	return nil
}

// over tells whether this loop has done its part: a good one when the term is lost, a reckless one when it was refused
// often enough or nobody has minded it for long enough.
func (s *stint) over(ctx context.Context) bool {
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
	if s.w.c.Route == lab.Direct {
		return s.late >= lateWrites || time.Since(s.since) > lateDirect
	}
	return s.stale >= refusals || time.Since(s.tried) > lateMost || time.Since(s.since) > lateReach
}

// How long a reckless leader writes on: until so many refusals, or for so long where nothing refuses it; where it does not
// reach the store, such as while a guard starts, so much longer; without any fence, so many writes or so long.
const (
	refusals   = 3
	lateMost   = 2 * time.Second
	lateReach  = 10 * time.Second
	lateWrites = 40
	lateDirect = time.Second
)

// wait lets a good leader's next write wait for the coordinator.
func (s *stint) wait(ctx context.Context) {
	if s.term.State() == fence.Suspended && s.term.Wait(ctx) == nil {
		s.acked = time.Now()
	}
}

// once is one operation, from before it is sent until its outcome is known.
func (s *stint) once(ctx context.Context) result {
	op := s.w.op(s.store[:1])
	e := history.Event{Kind: history.Invoke, Process: s.w.c.Name + "/" + s.store, Op: op, Do: history.Write, Store: s.store, Token: s.token}
	s.w.say(e)
	base := context.WithoutCancel(ctx) // an operation is finished, whoever wants the process to end
	if s.good && s.term != nil {
		base = s.term.Context()
	}
	r := s.writer.write(base, op, s.token)
	e.Kind, e.Outcome, e.Text = history.Return, r.outcome, r.text()
	s.w.say(e)
	if !s.since.IsZero() {
		s.late++
	}
	if s.raiser != nil && errors.Is(r.err, fence.ErrNotLeader) {
		s.raise(base)
	}
	return r
}

// raise lifts a mark that the store has lost. What comes of it shows in the next write.
func (s *stint) raise(ctx context.Context) {
	if err := s.raiser.Raise(ctx, s.term.Claim()); errors.Is(err, fence.ErrStale) {
		s.term.Supersede(err)
	}
}

// judge draws the conclusions of an outcome. The error ends both loops.
func (s *stint) judge(r result) error {
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
		return fmt.Errorf("%w: %s: for %s; last: %s", errUnhealthy, s.store, s.w.c.Health, r.text())
	}
	return nil
}
