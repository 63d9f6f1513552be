package postgres

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/network/backoff"
	"github.com/ringfence/ringfence/internal/postgres/pglisten"
)

// The channels of notices. The SQL has them, too.
const (
	sessionChannel  = "ringfence_s_" // and the session's id; the payload is a candidate's
	electionChannel = "ringfence_e_" // and the resource
	folderChannel   = "ringfence_d_" // and a digest of the folder; the payload is a document's name
)

// listener hears notices on one connection. A notice only saves time: clients also look without
// one.
type listener struct {
	c *Coordinator

	mu        sync.Mutex
	running   bool
	wanted    map[string]map[*subscription]bool // by channel
	interrupt context.CancelFunc                // makes the loop look at wanted again
}

// subscription is one interest in a channel.
type subscription struct {
	l       *listener
	channel string
	heard   func(payload string) // "" when notices may have been missed
	works   bool                 // the server knows; the listener's mutex guards it
}

// subscribe calls heard at every notice on a channel until stop. The caller is counted
// (campaign.Frame).
func (l *listener) subscribe(channel string, heard func(payload string)) *subscription {
	s := &subscription{l: l, channel: channel, heard: heard}
	if !l.c.address.listen {
		return s
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wanted[channel] == nil {
		l.wanted[channel] = map[*subscription]bool{}
	}
	l.wanted[channel][s] = true
	l.change()
	if !l.running {
		l.running = true
		l.c.frame.Go(l.run)
	}
	return s
}

// stop ends the subscription.
func (s *subscription) stop() {
	l := s.l
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.wanted[s.channel], s)
	if len(l.wanted[s.channel]) == 0 {
		delete(l.wanted, s.channel)
	}
	l.change()
}

// listening returns whether notices arrive, as far as we know.
func (s *subscription) listening() bool {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	return s.works
}

// change has the loop look at wanted again. The caller holds mu.
func (l *listener) change() {
	if l.interrupt != nil {
		l.interrupt()
	}
}

// run listens until the Coordinator is closed.
func (l *listener) run() {
	for failures := 1; l.c.frame.Context().Err() == nil; failures++ {
		begin := time.Now()
		err := l.serve()
		l.deaf()
		if time.Since(begin) > l.c.frame.Timeout {
			failures = 1
		}
		if l.c.frame.Context().Err() != nil {
			return
		}
		wait := backoff.After(failures, backoff.Min, backoff.Max)
		if errors.Is(err, errPooler) {
			wait = time.Hour // the polling is enough
		}
		l.c.frame.Log.Warn("cannot listen for notices, so elections are polled", "error", err, "in", wait)
		backoff.Pause(l.c.frame.Context(), wait)
	}
}

// deaf records that no notice arrives.
func (l *listener) deaf() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, all := range l.wanted {
		for s := range all {
			s.works = false
		}
	}
}

var errPooler = errors.New("there is a pooler between us and Postgres: " +
	"add listen=off to the options of the URL")

// serve listens on one connection until it fails.
func (l *listener) serve() error {
	ctx, cancel := context.WithTimeout(l.c.frame.Context(), l.c.frame.RequestTimeout())
	defer cancel()
	conn, err := connect(ctx, l.c.address)
	if err != nil {
		return err
	}
	defer l.c.calls.drop(conn)
	var pid uint32
	if err := conn.QueryRow(ctx, "select pg_catalog.pg_backend_pid()").Scan(&pid); err != nil {
		return err
	}
	if pid != conn.PgConn().PID() {
		return errPooler
	}
	listening := map[string]bool{}
	for {
		if err := l.hear(conn, listening); err != nil {
			return err
		}
	}
}

// hear makes the channels that are listened to those that are wanted, and waits for one notice. It
// returns nil after a while without one, if the connection still works.
func (l *listener) hear(conn *pgx.Conn, listening map[string]bool) error {
	limit := l.c.frame.Timeout / 2
	waiting, stop := context.WithTimeout(l.c.frame.Context(), limit)
	defer stop()
	l.mu.Lock()
	l.interrupt = stop
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(l.c.frame.Context(), limit)
	defer cancel()
	if err := l.update(ctx, conn, listening); err != nil {
		return err
	}
	n, err := conn.WaitForNotification(waiting)
	switch {
	case err == nil:
		l.tell(n.Channel, n.Payload)
		return nil
	case l.c.frame.Context().Err() != nil:
		return context.Cause(l.c.frame.Context())
	case waiting.Err() == nil:
		return err
	case errors.Is(waiting.Err(), context.Canceled):
		return nil // wanted has changed
	}
	ctx, cancel = context.WithTimeout(l.c.frame.Context(), limit)
	defer cancel()
	return pglisten.CatchUp(ctx, conn)
}

// update listens to what is wanted, and to nothing else.
func (l *listener) update(ctx context.Context, conn *pgx.Conn, listening map[string]bool) error {
	l.mu.Lock()
	var sql string
	var fresh []*subscription
	for channel, all := range l.wanted {
		if !listening[channel] {
			listening[channel] = true
			sql += "listen " + pgx.Identifier{channel}.Sanitize() + ";"
		}
		for s := range all {
			if !s.works {
				fresh = append(fresh, s)
			}
		}
	}
	for channel := range listening {
		if l.wanted[channel] == nil {
			delete(listening, channel)
			sql += "unlisten " + pgx.Identifier{channel}.Sanitize() + ";"
		}
	}
	l.mu.Unlock()
	if sql != "" {
		if _, err := conn.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
			return err
		}
	}
	l.mu.Lock()
	for _, s := range fresh {
		s.works = true
	}
	l.mu.Unlock()
	for _, s := range fresh {
		s.heard("")
	}
	return nil
}

// tell passes a notice on.
func (l *listener) tell(channel, payload string) {
	l.mu.Lock()
	var all []*subscription
	for s := range l.wanted[channel] {
		all = append(all, s)
	}
	l.mu.Unlock()
	for _, s := range all {
		s.heard(payload)
	}
}
