package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
)

// positions says where the candidates of a session were at one moment, by id.
type positions map[string]position

// position is where one candidate was.
type position struct {
	token  fence.Token
	ahead  int           // candidates ahead of it; 2 stands for more, too
	wait   time.Duration // until the leader's session expires
	issuer fence.Issuer
}

// of returns the place of a candidate, unless its row is gone.
func (p positions) of(e *candidate) (position, bool) {
	at, there := p[e.Key]
	return at, there && at.token == e.Token()
}

// readPlaces calls beat or look. errOver: the session is over.
func readPlaces(ctx context.Context, conn *pgx.Conn, call string, args ...any) (positions, error) {
	var alive bool
	var issuer string
	var ids []string
	var tokens []int64
	var ahead []int32
	var wait []float64
	err := row(ctx, conn, []any{&alive, &issuer, &ids, &tokens, &ahead, &wait}, call, args...)
	if err != nil {
		return nil, err
	}
	if !alive {
		return nil, errOver
	}
	found := make(positions, len(ids))
	for i, id := range ids {
		found[id] = position{
			token: fence.Token(tokens[i]), ahead: int(ahead[i]), issuer: fence.Issuer(issuer),
			wait: time.Duration(wait[i] * float64(time.Second)),
		}
	}
	return found, nil
}

// place records where a candidate is, and plans the next look. Of those who wait only the next in
// line looks: when the leader's session may have expired, or at every tick where notices do not
// arrive.
func (s *session) place(e *candidate, at position) {
	if at.ahead == 0 {
		e.lead(at.issuer)
		return
	}
	if at.ahead > 1 {
		return
	}
	next := s.c.tick()
	if s.notices.listening() {
		next = max(at.wait+time.Millisecond, next)
	}
	s.plan(e, time.Now().Add(next))
}

// plan has a candidate looked at then, or earlier if that is planned already.
func (s *session) plan(e *candidate, when time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.look.IsZero() || when.Before(e.look) {
		e.look = when
		kick(s.peek)
	}
}

// notice is called when the server has news of a candidate, or may have had some that was missed.
func (s *session) notice(id string) {
	for _, e := range s.Enrolled() {
		if id != "" && id != e.Key {
			continue
		}
		if id != "" && s.c.woken != nil && e.waits() {
			s.c.woken(e.Resource, e.Holder)
		}
		s.plan(e, time.Now())
	}
}

// look looks at candidates when that is planned, until the session is over. One call does it for
// all that are due.
func (s *session) look() {
	for s.Ended() == nil {
		due, wait := s.due()
		if len(due) == 0 {
			next := time.NewTimer(wait)
			select {
			case <-next.C:
			case <-s.peek:
			case <-s.Over():
			}
			next.Stop()
			continue
		}
		found, err := s.lookAt(due)
		switch {
		case errors.Is(err, errOver):
			s.End(errOver)
		case err != nil:
			for _, e := range due {
				s.plan(e, time.Now().Add(s.c.tick()))
			}
		default:
			for _, e := range due {
				if at, there := found.of(e); there {
					s.place(e, at)
				} else {
					e.Lose(fence.ErrDeposed)
				}
			}
		}
	}
}

// due takes the candidates to look at now, and returns how long it is until the next.
func (s *session) due() (due []*candidate, wait time.Duration) {
	wait = s.Timeout
	for _, e := range s.Enrolled() {
		switch is, left := e.due(); {
		case is:
			due = append(due, e)
		case left > 0:
			wait = min(wait, left)
		}
	}
	return due, wait
}

// due returns whether to look at the candidate now, and takes the plan then. left is how long it is
// until that, or 0 if nothing is planned.
func (e *candidate) due() (is bool, left time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.look.IsZero() {
		return false, 0
	}
	if left := time.Until(e.look); left > 0 {
		return false, left
	}
	e.look = time.Time{}
	return true, 0
}

func (s *session) lookAt(due []*candidate) (positions, error) {
	ids := make([]string, len(due))
	for i, e := range due {
		ids[i] = e.Key
	}
	return once(s.c.frame.Context(), s.c.beats, s.Timeout/4,
		func(ctx context.Context, conn *pgx.Conn) (positions, error) {
			return readPlaces(ctx, conn, "standing($1, $2)", s.id, ids)
		})
}
