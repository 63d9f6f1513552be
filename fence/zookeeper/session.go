package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	"golang.org/x/sync/errgroup"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/internal/campaign"
	"github.com/ringfence/ringfence/fence/zookeeper/internal/ensemble"
)

// session is a ZooKeeper session that all candidates of a Coordinator share.
type session struct {
	*campaign.Life[*candidate]
	c  *Coordinator
	zk *ensemble.Session

	mu     sync.Mutex
	strays map[*candidate]bool // have left, and may have znodes
}

// openSession opens a session, and follows it until it is over.
func (c *Coordinator) openSession(ctx context.Context) (*session, error) {
	start := time.Now()
	opened, err := c.client.NewSession(ctx)
	if err != nil {
		return nil, err
	}
	s := &session{
		Life: campaign.NewLife[*candidate](opened.Timeout(), start),
		c:    c, zk: opened, strays: map[*candidate]bool{},
	}
	c.client.Go(s.follow) // allowed: the calling Campaign is counted
	return s, nil
}

// Candidate implements campaign.Session.
func (s *session) Candidate(r fence.Resource, holder string) *candidate {
	id := newGUID()
	return &candidate{
		Standing: campaign.Standing{Resource: r, Holder: holder, Key: string(id)},
		s:        s, id: id, dir: s.c.dir(r),
		made: map[string]bool{}, armed: make(chan struct{}),
	}
}

// Close implements campaign.Session: it ends the session at the ensemble, and with it all
// candidates.
func (s *session) Close() { s.zk.Close() }

// follow suspends the terms at once when the connection breaks, beats when it is back, and ends
// with the ZooKeeper session.
func (s *session) follow() {
	for {
		up, changed, cause := s.zk.State()
		switch {
		case cause != nil:
			s.End(lossOf(cause))
			return
		case up:
			s.BeatNow()
		default:
			s.Suspend()
		}
		<-changed // Close changes the state, too
	}
}

// lossOf returns the cause of a term's loss from the end of its session.
func lossOf(cause error) error {
	if errors.Is(cause, ensemble.ErrEnded) {
		return fmt.Errorf("%w: %w", fence.ErrResigned, cause)
	}
	return fmt.Errorf("%w: %w", fence.ErrExpired, cause)
}

// over ends the session if an error says that the ZooKeeper session has ended. It returns the
// error. follow would notice it, too, but a campaign could come first and try the same session.
func (s *session) over(err error) error {
	if _, _, cause := s.zk.State(); cause != nil && ensemble.SessionOver(err) {
		s.End(lossOf(cause))
	}
	return err
}

// errDown: the session has no connection.
var errDown = errors.New("there is no connection to ZooKeeper")

// Beat implements campaign.Session: it confirms the candidates that have been proved to lead, and
// then deletes strays. While the reply is late, the terms are suspended; it still counts when it
// comes within the session timeout. After that the session is over, although the server may still
// answer the library's pings.
func (s *session) Beat(time.Time) error {
	ctx := s.c.client.Context()
	if err := s.confirm(ctx); err != nil {
		return s.over(err)
	}
	if err := s.sweep(ctx); err != nil {
		s.c.client.Log.Debug("candidates that have left could not be deleted", "error", err)
	}
	return nil
}

// confirm reads the candidates with a watch that does not count any more, and syncs. The sync
// confirms those with a watch that was set before it, on the same connection, and has not fired
// when its reply arrives. The package documentation says why.
func (s *session) confirm(ctx context.Context) error {
	up, _, cause := s.zk.State()
	switch {
	case cause != nil:
		return cause
	case !up:
		return errDown
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.Timeout, ensemble.ErrSlow)
	defer cancel()
	inTime := s.suspendIfLate()
	defer inTime()
	connects := s.zk.Connects()
	if err := s.read(ctx, connects); err != nil {
		return err
	}
	watched := s.watched(connects)
	start := time.Now()
	if _, err := ensemble.Do(ctx, s.zk, func(conn *zk.Conn) (string, error) {
		return conn.Sync(s.c.client.Path)
	}); err != nil {
		return err
	}
	inTime()
	if s.zk.Connects() != connects {
		return errDown
	}
	s.Confirm(start)
	for e, own := range watched {
		if !fired(own) {
			e.Confirm(start)
		}
	}
	if up, _, _ := s.zk.State(); !up {
		return errDown // follow has suspended the terms before they were confirmed
	}
	return nil
}

// suspendIfLate suspends the terms a quarter of a session timeout from now, unless the function
// that it returns is called before. After that call they are not suspended.
func (s *session) suspendIfLate() (inTime func()) {
	done := make(chan struct{})
	late := time.AfterFunc(s.Timeout/4, func() { s.Suspend(); close(done) })
	return sync.OnceFunc(func() {
		if !late.Stop() {
			<-done
		}
	})
}

// read reads the candidates with a watch that has fired or was set on an earlier connection, and
// those that have not been read for a while. It loses those that are gone. Those that it cannot
// read in an eighth of the session timeout are left to the next beat. This one does not confirm
// them, but the session, and with it the others.
func (s *session) read(ctx context.Context, connects int) error {
	var due []*candidate
	for _, e := range s.Enrolled() {
		if e.due(connects) {
			due = append(due, e)
		}
	}
	reading, done := context.WithTimeout(ctx, s.Timeout/8)
	defer done()
	return forAll(due, func(e *candidate) error {
		err := reading.Err()
		if err == nil {
			err = e.watchOwn(reading)
		}
		switch {
		case errors.Is(err, errGone):
			e.Lose(fence.ErrDeposed)
		case err != nil && reading.Err() != nil && ctx.Err() == nil:
			s.BeatNow()
		case ensemble.Unanswered(err) || ctx.Err() != nil:
			return err
		case err != nil: // this one may not be read any more
			s.c.client.Log.Warn("the own candidate cannot be read", "resource", e.Resource,
				"token", e.Token(), "error", err)
			e.Suspend()
		}
		return nil
	})
}

// watched returns the candidates that have been proved, with their watches, where these were set on
// this connection.
func (s *session) watched(connects int) map[*candidate]<-chan zk.Event {
	watched := map[*candidate]<-chan zk.Event{}
	for _, e := range s.Enrolled() {
		if own := e.watchSince(connects); own != nil {
			watched[e] = own
		}
	}
	return watched
}

func fired(watch <-chan zk.Event) bool {
	select {
	case <-watch:
		return true
	default:
		return false
	}
}

// forAll calls do for each, several at once, and returns the errors.
func forAll[T any](all []T, do func(T) error) error {
	var work errgroup.Group
	work.SetLimit(atOnce)
	errs := make([]error, len(all))
	for i, one := range all {
		work.Go(func() error { errs[i] = do(one); return nil })
	}
	_ = work.Wait()
	return errors.Join(errs...)
}
