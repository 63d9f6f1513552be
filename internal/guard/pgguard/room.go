package pgguard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/network/backoff"
)

// fullError is a login that the server has refused for lack of room. The client has not got the
// message yet.
type fullError struct{ message []byte }

func (*fullError) Error() string { return "the server has no room for the login" }

// lacksRoom reports whether an ErrorResponse says that the server has no connection or no lock
// left.
func lacksRoom(body []byte) bool {
	var e pgproto3.ErrorResponse
	return e.Decode(body) == nil && (e.Code == pgmarks.NoConnections || e.Code == pgmarks.NoMemory)
}

// logIn relays the login. If the server has no room for it and the client leads, logIn makes room
// and tries again, for as long as an admission may take. A client that has sent its password cannot
// send another one, because that would answer another question: it gets the server's error once
// there is room, and its next attempt succeeds.
func (l *login) logIn(ctx context.Context) error {
	err := l.attempt(ctx)
	bounded, cancel := context.WithTimeout(ctx, l.patience())
	defer cancel()
	for {
		full, ok := errors.AsType[*fullError](err)
		if !ok {
			return err
		}
		if !l.makeRoom(bounded) || l.asked {
			_, err := l.out.Write(full.message)
			return errors.Join(errRefusedByServer, guard.NoRoom, err)
		}
		_ = l.server.Close()
		if err = l.dial(ctx); err == nil {
			err = l.attempt(ctx)
		}
	}
}

// attempt relays the login on the present upstream connection.
func (l *login) attempt(ctx context.Context) error {
	unhook := guard.Limit(ctx, l.server, l.p.o.LoginTimeout)
	err := l.whilePrimary(l.run)
	if !unhook() && err == nil {
		return context.Cause(ctx)
	}
	if err == nil {
		l.p.full.Store(false)
	}
	return err
}

// prepareRoom makes room before the login, if the server has none: for a new leader, and if there
// was none before. The client then need not log in twice.
func (l *login) prepareRoom(ctx context.Context) {
	if len(l.claims) == 0 || !l.p.full.Load() && !l.newer() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, l.patience())
	defer cancel()
	if room, err := l.room(ctx); l.p.o.Store.NoRoom(err) || err == nil && room.Least() <= 0 {
		l.makeRoom(ctx)
	}
}

// newer reports whether the guard has yet to see the mark raised to the client's claims. Then older
// sessions may have to end before there is room. It does not know in a database that is not open.
func (l *login) newer() bool {
	newer := false
	_, _ = l.at.Ask(func(a *marks.Admission) error {
		newer = a.Newer(l.claims)
		return nil
	})
	return newer
}

// evictionTime is how long a login waits for those to be evicted that stall: longer than the grace.
const evictionTime = 2 * time.Second

// patience returns how long a login waits for room: not for long if it has the present leader's own
// sessions to wait for, which stay.
func (l *login) patience() time.Duration {
	limit := l.p.o.Admission.Limit()
	if l.newer() {
		return limit
	}
	return min(limit, evictionTime)
}

// makeRoom makes room for the login of a client that leads, and reports whether another attempt may
// succeed. It ends older sessions of the client's resources. If the server has no connection left
// for anybody, it also has other logins wait or evicts them, until the login is over.
func (l *login) makeRoom(ctx context.Context) bool {
	home := l.p.o.Admission
	if home.Authority.Verifies() && home.Leads(ctx, l.claims) != nil {
		return false
	}
	l.p.full.Store(true)
	for home.Authority.Verifies() && ctx.Err() == nil {
		l.starve()
		if room, err := l.room(ctx); err == nil && room.Server > 0 {
			l.over() // only the role or the database has no room, or there are no locks
		}
		if err := l.at.Open(ctx); err == nil {
			_ = l.at.Admission.MakeRoom(ctx, l.claims) // the next round tries again
		}
		l.rounds++
		backoff.Pause(ctx, backoff.After(l.rounds, 5*time.Millisecond, 200*time.Millisecond))
		if room, err := l.room(ctx); err == nil && room.Least() > 0 {
			return true
		}
	}
	return false
}

// room returns the room for the login.
func (l *login) room(ctx context.Context) (pgmarks.Room, error) {
	return l.p.o.Store.Room(ctx, l.at.Name, l.startup.Get("user"))
}

// starve has other logins wait until l.feed is called.
func (l *login) starve() {
	if l.feed == nil {
		l.feed = l.client.Seat.Starve()
	}
}

// over ends what the login has others wait for.
func (l *login) over() {
	if l.feed != nil {
		l.feed()
		l.feed = nil
	}
}

// Bound implements guard.Bounded.
func (p *Protocol) Bound(ctx context.Context) (connections int, setting string, err error) {
	room, err := p.o.Store.Room(ctx, p.databases.Home(), "")
	return room.Most, "max_connections", err
}

// hasRoom returns nil unless the server had no connection for a leader, and has none now. A full
// server alone does not count: its sessions may all be the present leader's, and a new leader ends
// them.
func (p *Protocol) hasRoom(ctx context.Context) error {
	if !p.full.Load() {
		return nil
	}
	room, err := p.o.Store.Room(ctx, p.databases.Home(), "")
	if err == nil && room.Server <= 0 {
		err = fmt.Errorf("a leader's login was refused (53300): all %d connections of the server are "+
			"in use (max_connections, less those that it reserves)", room.Most)
	}
	if err == nil {
		p.full.Store(false)
	}
	return err
}
