package pgguard

import (
	"context"
	"errors"
	"time"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/guard/pgguard/wire"
	"github.com/ringfence/ringfence/internal/marks"
)

// enter admits the session of a successful login and sends the client ReadyForQuery.
func (l *login) enter(ctx context.Context) (*session, error) {
	_ = l.client.SetDeadline(time.Time{})
	_ = l.server.SetDeadline(time.Time{})
	if err := l.reach(ctx); err != nil {
		defer l.server.Close()
		return nil, l.fail(ctx, err)
	}
	id, err := l.admit(ctx)
	s := &session{
		p: l.p, at: l.at, client: l.client, server: l.server, until: l.until, id: id, claims: l.claims,
	}
	if err != nil {
		defer s.close(ctx)
		return nil, l.fail(ctx, err)
	}
	_, _ = l.out.Write(l.ready)
	if err := l.out.Flush(); err != nil {
		s.close(ctx)
		return nil, err
	}
	s.start(ctx, wire.Unused(l.fromClient), wire.Unused(l.fromServer))
	return s, nil
}

// admit identifies the session and admits it, in the time for one admission. Whenever the session
// may be registered it returns it, with an error too.
func (l *login) admit(ctx context.Context) (sess marks.SessionID, err error) {
	admission := l.at.Admission
	ctx, cancel := context.WithTimeout(ctx, admission.Limit())
	defer cancel()
	ctx, steps := marks.WithSteps(ctx)
	defer func() { admission.Finish(ctx, steps, l.claims[0].Under(""), err) }()
	identified, err := l.identify(ctx)
	if err != nil {
		return marks.SessionID{}, err
	}
	if err := admission.Admit(ctx, identified, l.claims); err != nil {
		return marks.SessionID{}, err
	}
	defer marks.StepSlot.Begin(ctx)()
	return identified, l.client.Seat.Admit(ctx)
}

// fail ends a login that the server accepted and the guard did not.
func (l *login) fail(ctx context.Context, err error) error {
	if ctx.Err() != nil { // the guard has ended the connection, whatever err says
		return l.abort(ctx, err)
	}
	_ = l.flush()
	return l.p.refuse(l.client, err)
}

// abort ends a login that has an upstream connection.
func (l *login) abort(ctx context.Context, err error) error {
	if l.flush() != nil {
		return errors.Join(err, endedByGuard(ctx, err))
	}
	return l.p.failLogin(ctx, l.client, err)
}

// flush abandons a login, and sends the client what the server has sent: the client may have got a
// part of it, and an error must not follow half a message.
func (l *login) flush() error {
	l.abandon()
	_ = l.client.SetDeadline(time.Now().Add(guard.LastWordTime))
	return l.out.Flush()
}

// abandon closes the upstream connection of a failed login, and only then frees its login slot.
func (l *login) abandon() {
	_ = l.server.Close()
	l.client.Seat.EndLogin()
}
