package pgmarks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/network/backoff"
	"github.com/ringfence/ringfence/internal/network/password"
	"github.com/ringfence/ringfence/internal/postgres/pglogin"
)

const (
	lookEvery = 500 * time.Millisecond // between two looks at one server
	lookTime  = time.Second            // bounds a look
	dialTime  = 2 * time.Second        // bounds a login for looks

	// doubtTime is how long the present primary must have been silent before one on an older timeline
	// takes its place: that one was a primary before, and may not know that it no longer is.
	doubtTime = 3 * time.Second
)

// primaries follows which of the servers of a URL is the primary, as libpq does when it connects
// (manual, 34.1.1.3, "Specifying Multiple Hosts"). It keeps a connection to each of them, so it
// notices at once when another one is promoted. Of two primaries that on the later timeline counts.
type primaries struct {
	servers  []*followed
	password *password.Source
	moved    func(address string) // is called when another server is the primary; must not block

	start   sync.Once
	stop    context.CancelFunc
	watches sync.WaitGroup

	mu      sync.Mutex
	changed chan struct{} // closed at the next change
	now     *followed     // the primary; nil if there is none
	until   context.Context
	end     context.CancelFunc
}

// followed is one server, and what it said last.
type followed struct {
	cfg      *pgx.ConnConfig
	primary  bool
	timeline int64
	since    time.Time // when err first came
	err      error     // why it could not be asked; nil if it said what it is
}

// errUnasked: nothing is known of a server yet.
var errUnasked = errors.New("it has not answered yet")

// wait says how long a call waits while no server is the primary.
type wait bool

const (
	untilAsked wait = false
	untilFound wait = true
)

// follow starts when somebody first asks for the primary.
func follow(hosts []*pgx.ConnConfig, source *password.Source, moved func(string)) *primaries {
	p := &primaries{password: source, moved: moved, changed: make(chan struct{})}
	for _, cfg := range hosts {
		cfg.ValidateConnect = nil // a standby is asked, too
		p.servers = append(p.servers, &followed{cfg: cfg, err: errUnasked})
	}
	return p
}

// close ends all that follows. A nil primaries follows nothing.
func (p *primaries) close() {
	if p == nil {
		return
	}
	p.start.Do(func() {}) // it does not start any more
	if p.stop != nil {
		p.stop()
	}
	p.watches.Wait()
}

// watch starts to follow the servers.
func (p *primaries) watch() {
	var ctx context.Context
	ctx, p.stop = context.WithCancel(context.Background())
	for _, s := range p.servers {
		p.watches.Go(func() { p.ask(ctx, s) })
	}
}

// primary returns the server that is the primary. until ends when another one takes its place.
func (p *primaries) primary(
	ctx context.Context, w wait,
) (cfg *pgx.ConnConfig, until context.Context, err error) {
	p.start.Do(p.watch)
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.now == nil {
		asked := !slices.ContainsFunc(p.servers, func(s *followed) bool { return s.err == errUnasked })
		if ctx.Err() != nil || asked && w == untilAsked {
			return nil, nil, p.none()
		}
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		p.mu.Lock()
	}
	return p.now.cfg, p.until, nil
}

// none says why no server is the primary. The caller holds mu.
func (p *primaries) none() error {
	var each []string
	for _, s := range p.servers {
		_, address := dialTarget(s.cfg)
		why := address + " is a standby"
		if s.err != nil {
			why = s.err.Error()
		}
		if !strings.Contains(why, address) {
			why = address + ": " + why
		}
		each = append(each, why)
	}
	return fmt.Errorf("no server of the URL is the primary: %s", strings.Join(each, "; "))
}

// ask asks one server again and again what it is, until ctx ends.
func (p *primaries) ask(ctx context.Context, s *followed) {
	for ctx.Err() == nil {
		if err := p.askOn(ctx, s); err != nil && ctx.Err() == nil {
			p.heard(s, false, 0, err)
		}
		backoff.Pause(ctx, lookEvery/2)
	}
}

// askOn asks on one connection, until that fails.
func (p *primaries) askOn(ctx context.Context, s *followed) error {
	dialing, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	conn, err := pglogin.Connect(dialing, s.cfg, p.password)
	if err != nil {
		return err
	}
	defer conn.Close(dialing)
	for {
		primary, timeline, err := lookAt(ctx, conn)
		if err != nil {
			return err
		}
		p.heard(s, primary, timeline, nil)
		backoff.Pause(ctx, lookEvery)
	}
}

// lookAt asks a server whether it is the primary, and on which timeline. It is 0 where the service
// hides it, as Aurora does; there only one server can be the primary.
func lookAt(ctx context.Context, conn *pgx.Conn) (primary bool, timeline int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	err = conn.QueryRow(ctx, "select not pg_catalog.pg_is_in_recovery()").Scan(&primary)
	if err != nil || !primary {
		return primary, 0, err
	}
	var name string
	err = conn.QueryRow(ctx,
		"select pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn())").Scan(&name)
	if err != nil && conn.IsClosed() {
		return false, 0, err
	}
	if err == nil {
		_, err = fmt.Sscanf(name, "%8X", &timeline)
	}
	if err != nil {
		timeline = 0
	}
	return true, timeline, nil
}

// heard enters what a server has said, and changes over if another one is the primary now.
func (p *primaries) heard(s *followed, primary bool, timeline int64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := s.err == errUnasked
	if err == nil {
		s.timeline = timeline
	} else if first || s.err == nil {
		s.since = time.Now()
	}
	s.primary, s.err = primary, err
	next := p.choose()
	if next == p.now {
		if first {
			p.tell()
		}
		return
	}
	p.now = next
	if p.end != nil {
		p.end()
	}
	p.until, p.end = context.WithCancel(context.Background())
	if next != nil {
		_, address := dialTarget(next.cfg)
		p.moved(address)
	}
	p.tell()
}

// tell wakes those who wait. The caller holds mu.
func (p *primaries) tell() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// choose returns the primary, or nil if none is known. One that cannot be asked stays the primary,
// until another one is: it may only be busy, or be starting again. The caller holds mu.
func (p *primaries) choose() *followed {
	var best *followed
	for _, s := range p.servers {
		if s.primary && (best == nil || s.timeline > best.timeline ||
			s.timeline == best.timeline && s == p.now) {
			best = s
		}
	}
	silent := p.now != nil && p.now.err != nil
	switch {
	case best == nil && silent:
		return p.now
	case best != nil && silent && best.timeline < p.now.timeline &&
		time.Since(p.now.since) < doubtTime:
		return p.now
	}
	return best
}
