package inject

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lab/record"
	"github.com/ringfence/ringfence/lab/system"
)

const (
	timeout  = 50 * time.Millisecond // the statement timeout of a spoiled session
	passes   = 4 * timeout           // after that it has passed
	answered = 2 * time.Second       // how long its statement before the write takes
)

// lateWrite is a write of a spoiled session that arrives when its fault ends.
type lateWrite struct {
	guard   string
	claim   fence.Claim
	session *pgconn.HijackedConn
	done    chan struct{} // closed with the outcome
	err     error         // of the attempt
}

// spoil opens a session of the leader, spoils the guard's count of its answers, and writes. Without
// guards there is nothing to spoil, and arrive writes.
func (r *Injector) spoil(ctx context.Context, guard string) error {
	late := &lateWrite{guard: guard, done: make(chan struct{})}
	r.rec.Look(func(s *record.Seen) { late.claim = s.Term() })
	if r.Unguarded {
		r.late = late
		return nil
	}
	var port int
	var err error
	if late.session, port, err = r.session(ctx, guard, late.claim); err != nil {
		return err
	}
	defer late.within(ctx)()
	if err := miscount(ctx, late.session.Frontend); err != nil {
		return errors.Join(err, late.session.Conn.Close())
	}
	if err := r.sys.Shape(ctx, guard, "postgres", system.Shape{HoldUp: true, Port: port}); err != nil {
		return errors.Join(err, r.sys.Shape(ctx, guard, "postgres", system.Shape{}),
			late.session.Conn.Close())
	}
	r.late = late
	return late.begin(r)
}

// within closes the session if ctx ends before the function is called that it returns.
func (l *lateWrite) within(ctx context.Context) func() bool {
	return context.AfterFunc(ctx, func() { _ = l.session.Conn.Close() })
}

// session opens a session under a claim. The port is that of the connection at Postgres.
func (r *Injector) session(
	ctx context.Context, guard string, c fence.Claim,
) (session *pgconn.HijackedConn, port int, err error) {
	conn, err := r.connectUnder(ctx, guard, c)
	if err != nil {
		return nil, 0, err
	}
	if err = conn.QueryRow(ctx, "select inet_client_port()").Scan(&port); err == nil {
		session, err = conn.PgConn().Hijack()
	}
	if err != nil {
		err = errors.Join(err, conn.Close(ctx))
	}
	return session, port, err
}

// miscount has Postgres send an answer that nobody asked for. A statement timeout that a Parse has
// armed ends nothing while the backend waits for a request, and the next message is answered with
// an error. CopyData is no message of the extended protocol, so a ReadyForQuery follows, which the
// guard takes for the answer to the statement behind it. That one is still under way then.
func miscount(ctx context.Context, to *pgproto3.Frontend) error {
	set := fmt.Sprintf("set statement_timeout = %d", timeout.Milliseconds())
	if err := send(to, &pgproto3.Query{String: set}); err != nil {
		return err
	}
	if err := send(to, &pgproto3.Parse{Query: "select 1"}, &pgproto3.Flush{}); err != nil {
		return err
	}
	if _, err := to.Receive(); err != nil {
		return err
	}
	if err := system.Sleep(ctx, passes); err != nil {
		return err
	}
	slow := fmt.Sprintf("set statement_timeout = 0; select pg_sleep(%f)", answered.Seconds())
	to.Send(&pgproto3.CopyData{Data: []byte("x")})
	to.Send(&pgproto3.Query{String: slow})
	if err := to.Flush(); err != nil {
		return err
	}
	if err := answer(to); ignored(err) != nil || err == nil {
		return fmt.Errorf("the statement timeout has not passed: %w", err)
	}
	return nil
}

// begin sends the write, and returns once everything before it is answered.
func (l *lateWrite) begin(r *Injector) error {
	underWay := make(chan struct{})
	go l.attempt(r, underWay)
	select {
	case <-underWay:
		return nil
	case <-l.done:
		return errors.Join(errors.New("the session ended before its write was under way"), l.err)
	}
}

// attempt writes while the statement before the write is still under way.
func (l *lateWrite) attempt(r *Injector, underWay chan<- struct{}) {
	defer close(l.done)
	defer l.session.Conn.Close()
	l.err = r.attempt("postgres", l.claim, func(op string) error {
		to := l.session.Frontend
		to.Send(&pgproto3.Query{
			String: fmt.Sprintf("insert into ledger (op, token) values ('%s', %d)", op, l.claim.Token),
		})
		if err := to.Flush(); err != nil {
			return err
		}
		if err := answer(to); err != nil {
			return err
		}
		close(underWay)
		return answer(to)
	})
}

// arrive lets the late write arrive, and waits for its outcome.
func (r *Injector) arrive(ctx context.Context) error {
	late := r.late
	r.late = nil
	switch {
	case late == nil:
		return nil
	case r.Unguarded:
		return r.attempt("postgres", late.claim, func(op string) error {
			return r.returning(ctx, late.guard, op, late.claim)
		})
	}
	defer late.within(ctx)()
	err := r.sys.Shape(ctx, late.guard, "postgres", system.Shape{})
	<-late.done
	return errors.Join(err, late.err)
}

// send sends messages and, if the last one has to be answered, returns the first error in the
// answers.
func send(to *pgproto3.Frontend, all ...pgproto3.FrontendMessage) error {
	for _, m := range all {
		to.Send(m)
	}
	if err := to.Flush(); err != nil {
		return err
	}
	switch all[len(all)-1].(type) {
	case *pgproto3.Sync, *pgproto3.Query:
		return answer(to)
	}
	return nil
}

// answer receives to the next ReadyForQuery, and returns the first error.
func answer(from *pgproto3.Frontend) (first error) {
	for {
		m, err := from.Receive()
		if err != nil {
			if first != nil {
				return first
			}
			return err
		}
		switch m := m.(type) {
		case *pgproto3.ErrorResponse:
			if first == nil {
				first = pgconn.ErrorResponseToPgError(m)
			}
		case *pgproto3.ReadyForQuery:
			return first
		}
	}
}

// ignored returns nil for an error of the database.
func ignored(err error) error {
	if _, ok := errors.AsType[*pgconn.PgError](err); ok {
		return nil
	}
	return err
}
