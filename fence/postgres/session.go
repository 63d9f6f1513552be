package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/internal/campaign"
)

// session is a row that all candidates of a Coordinator share.
type session struct {
	*campaign.Life[*candidate]
	c       *Coordinator
	id      string
	peek    chan struct{} // asks for a look now
	notices *subscription
}

// newID returns an id that nobody else has.
func newID() string { return strings.ToLower(rand.Text()) }

// openSession opens a session. One whose reply was lost runs out by itself. It takes the
// heartbeat's connection, so a role that may not have one more wins nothing that it cannot keep.
func (c *Coordinator) openSession(ctx context.Context) (*session, error) {
	s, err := askOn(ctx, c, c.beats, "open a session", c.frame.RequestTimeout()/2,
		func(ctx context.Context, conn *pgx.Conn) (*session, error) {
			s := &session{
				Life: campaign.NewLife[*candidate](c.frame.Timeout, time.Now()),
				c:    c, id: newID(), peek: make(chan struct{}, 1),
			}
			_, err := conn.Exec(ctx, "select ringfence.open_lease($1, $2)",
				s.id, s.Timeout.Milliseconds())
			return s, err
		})
	if err != nil {
		return nil, err
	}
	// The campaign that calls is still counted.
	s.notices = c.listener.subscribe(sessionChannel+s.id, s.notice)
	c.frame.Go(s.look)
	return s, nil
}

// Candidate implements campaign.Session.
func (s *session) Candidate(r fence.Resource, holder string) *candidate {
	return &candidate{s: s, leads: make(chan struct{}), Standing: campaign.Standing{
		Resource: r, Holder: holder, Key: newID(),
	}}
}

// Beat implements campaign.Session: it renews the session and reads its candidates in the same
// call, so those that it finds are there as long as the session.
func (s *session) Beat(start time.Time) error {
	members := s.Enrolled()
	found, err := once(s.c.frame.Context(), s.c.beats, s.Timeout/4,
		func(ctx context.Context, conn *pgx.Conn) (positions, error) {
			return readPlaces(ctx, conn, "beat($1)", s.id)
		})
	if err != nil {
		return s.over(err)
	}
	s.Confirm(start)
	for _, e := range members {
		if at, there := found.of(e); there {
			e.Confirm(start)
			s.place(e, at)
		} else {
			e.Lose(fence.ErrDeposed)
		}
	}
	return s.over(s.sweep(found))
}

// over ends the session if an error says that the server has ended it. It returns the error.
func (s *session) over(err error) error {
	switch {
	case errors.Is(err, errOver):
		s.End(errOver)
	case errors.Is(err, errNotInstalled):
		s.End(fmt.Errorf("%w: %w", fence.ErrExpired, err))
	}
	return err
}

// sweep deletes rows of the session that belong to no candidate: one that left while the server was
// out of reach, or an enrolment that arrived after its campaign had given up. Without the sweep
// such a row would hold up the election for as long as the session is renewed.
func (s *session) sweep(found positions) error {
	var strangers []string
	for id := range found {
		if !s.Knows(id) {
			strangers = append(strangers, id)
		}
	}
	if strangers == nil {
		return nil
	}
	_, err := once(s.c.frame.Context(), s.c.beats, s.Timeout/4,
		perform("withdraw($1, $2)", s.id, strangers))
	return err
}

// kick makes a channel ready.
func kick(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Close implements campaign.Session: it ends the session at the server, and with it all candidates.
// If it fails, the session runs out.
func (s *session) Close() {
	s.notices.stop()
	ctx := context.WithoutCancel(s.c.frame.Context())
	_, _ = once(ctx, s.c.beats, time.Second, perform("close_lease($1)", s.id))
}
