package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
)

// places says where the candidates of a session were at one moment.
type places struct {
	issuer fence.Issuer
	at     map[string]place // by id
}

// place is where one candidate was.
type place struct {
	token  fence.Token
	ahead  int           // candidates ahead of it; 2 stands for more, too
	wait   time.Duration // until the leader's session expires
	issuer fence.Issuer
}

// of returns the place of a candidate, unless its row is gone.
func (p places) of(e *candidate) (place, bool) {
	at, there := p.at[e.id]
	return at, there && at.token == e.token
}

// readPlaces calls beat or look. errOver: the session is over.
func readPlaces(ctx context.Context, conn *pgx.Conn, call string, args ...any) (places, error) {
	var alive bool
	var issuer string
	var ids []string
	var tokens []int64
	var ahead []int32
	var wait []float64
	err := row(ctx, conn, []any{&alive, &issuer, &ids, &tokens, &ahead, &wait}, call, args...)
	if err != nil {
		return places{}, err
	}
	if !alive {
		return places{}, errOver
	}
	found := places{issuer: fence.Issuer(issuer), at: make(map[string]place, len(ids))}
	for i, id := range ids {
		found.at[id] = place{
			token: fence.Token(tokens[i]), ahead: int(ahead[i]), issuer: found.issuer,
			wait: time.Duration(wait[i] * float64(time.Second)),
		}
	}
	return found, nil
}

// place records where a candidate is, and plans the next look. Of those who wait only the next in
// line looks: when the leader's session may have expired, or at every tick where notices do not
// arrive.
func (s *session) place(e *candidate, at place) {
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
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.look.IsZero() || when.Before(e.look) {
		e.look = when
		kick(s.peek)
	}
}

// notice is called when the server has news of a candidate, or may have had some that was missed.
func (s *session) notice(id string) {
	for _, e := range s.enrolled() {
		if id != "" && id != e.id {
			continue
		}
		if id != "" && s.c.woken != nil && e.waits() {
			s.c.woken(e.resource, e.holder)
		}
		s.plan(e, time.Now())
	}
}

// look looks at candidates when that is planned, until the session is over. One call does it for
// all that are due.
func (s *session) look() {
	for s.ended() == nil {
		due, wait := s.due()
		if len(due) == 0 {
			next := time.NewTimer(wait)
			select {
			case <-next.C:
			case <-s.peek:
			case <-s.over:
			}
			next.Stop()
			continue
		}
		found, err := s.lookAt(due)
		switch {
		case errors.Is(err, errOver):
			s.end(errOver)
		case err != nil:
			for _, e := range due {
				s.plan(e, time.Now().Add(s.c.tick()))
			}
		default:
			for _, e := range due {
				if at, there := found.of(e); there {
					s.place(e, at)
				} else {
					e.lose(fence.ErrDeposed)
				}
			}
		}
	}
}

// due takes the candidates to look at now, and returns how long it is until the next.
func (s *session) due() (due []*candidate, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait = s.ttl
	for _, e := range s.known {
		if e.token == 0 || e.look.IsZero() {
			continue
		}
		if left := time.Until(e.look); left > 0 {
			wait = min(wait, left)
			continue
		}
		e.look = time.Time{}
		due = append(due, e)
	}
	return due, wait
}

func (s *session) lookAt(due []*candidate) (places, error) {
	ids := make([]string, len(due))
	for i, e := range due {
		ids[i] = e.id
	}
	return once(s.c.ctx, s.c.beats, s.ttl/4,
		func(ctx context.Context, conn *pgx.Conn) (places, error) {
			return readPlaces(ctx, conn, "look($1, $2)", s.id, ids)
		})
}
