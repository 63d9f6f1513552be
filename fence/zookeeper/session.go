package zookeeper

import (
	"context"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

const (
	sendMost  = 64 << 10    // bytes of a request of ours, but for a document; the library would allocate 1.5 MB
	closeWait = time.Second // for the server's reply to the end of a session
)

// session is one ZooKeeper session and the only zk.Conn that ever speaks in it. Whoever opens it closes it.
type session struct {
	c         *Coordinator
	resumable bool // a broken connection is made anew; otherwise the session is over with it
	conn      *zk.Conn
	loop      chan struct{}   // closed when the library's loop has ended
	ctx       context.Context // ends at close
	cancel    context.CancelCauseFunc
	once      sync.Once
	over      chan struct{} // closed when the session is over: no more requests
	calls     sync.WaitGroup

	mu      sync.Mutex
	id      int64         // 0 before the first greeting
	timeout time.Duration // granted
	up      bool
	turn    int           // how many times it came up
	changed chan struct{} // closed at the next change of up or over
	cause   error         // why it is over; nil while it is not
	late    *time.Timer   // ends a session that stays out of reach
	link    *link
	dials   int // since the last greeting
	closed  bool
	watches map[string]<-chan zk.Event
	paths   map[string]bool // of all watches there may be
}

// openSession starts a session and returns when it stands, with credentials given. ctx bounds the opening only.
func (c *Coordinator) openSession(ctx context.Context, resumable bool) (*session, error) {
	s := &session{
		c: c, resumable: resumable, loop: make(chan struct{}), over: make(chan struct{}), changed: make(chan struct{}),
		watches: map[string]<-chan zk.Event{}, paths: map[string]bool{},
	}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	most := sendMost
	if !resumable { // the eyes', which write the documents too
		most += c.documentLimit
	}
	conn, events, err := zk.Connect(c.address.hosts, c.timeout,
		zk.WithDialer(s.dial), zk.WithHostProvider(&hosts{s: s}), zk.WithEventCallback(s.event),
		zk.WithLogger(quiet{c.log}), zk.WithMaxConnBufferSize(most))
	if err != nil {
		s.cancel(errEnded)
		return nil, err
	}
	s.conn = conn
	go s.drain(events)
	if err := s.arrive(ctx); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// drain ends with the library's loop. Events come through the callback, for the channel drops what it has no room for.
func (s *session) drain(events <-chan zk.Event) {
	defer close(s.loop)
	for range events {
	}
}

// arrive waits until the session stands and has its credentials.
func (s *session) arrive(ctx context.Context) error {
	if err := s.after(ctx, 0); err != nil {
		return err
	}
	if s.c.address.user == "" {
		return nil
	}
	_, err := read(ctx, s, func(conn *zk.Conn) (struct{}, error) {
		return struct{}{}, conn.AddAuth("digest", []byte(s.c.address.user+":"+s.c.address.password))
	})
	return err
}

// event is the library's callback: it must not block.
func (s *session) event(e zk.Event) {
	if e.Type != zk.EventSession {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch e.State {
	case zk.StateHasSession:
		s.turn++
		s.dials = 0
		s.c.answered()
		s.moveLocked(true)
	case zk.StateDisconnected:
		if s.up {
			s.moveLocked(false)
		}
		if !s.resumable && s.turn > 0 {
			s.endLocked(errBroken)
		}
	case zk.StateExpired:
		s.endLocked(errExpired)
	}
}

// moveLocked records that the ensemble is in reach or not. Out of reach for a session timeout is out for good: a
// server that was wiped would be dialled forever otherwise, and names would never be resolved anew.
func (s *session) moveLocked(up bool) {
	s.up = up
	s.tellLocked()
	switch {
	case up && s.late != nil:
		s.late.Stop()
	case !up && s.late == nil:
		s.late = time.AfterFunc(s.timeout, func() { s.endIfDown() })
	case !up:
		s.late.Reset(s.timeout)
	}
}

func (s *session) endIfDown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.up {
		s.endLocked(errExpired)
	}
}

// greeted judges a server's greeting. An error means that the library must not see it.
func (s *session) greeted(g greeting) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.cause != nil:
		return s.cause
	case g.session == 0 || g.timeout <= 0: // the server's way to say expired
		s.endLocked(errExpired)
	case s.id == 0:
		s.id, s.timeout = g.session, g.timeout
	case g.session != s.id || g.timeout < s.timeout: // another session; or one that ends before we would know
		s.endLocked(errExpired)
	}
	return s.cause
}

// farewell tells the library that all watches have fired.
func (s *session) farewell() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	var frames []byte
	for path := range s.paths {
		frames = append(frames, fired(path)...)
	}
	return frames
}

// end lets no further request start and no further connection be made. The first cause stays.
func (s *session) end(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked(cause)
}

func (s *session) endLocked(cause error) {
	if s.cause != nil {
		return
	}
	s.cause = cause
	close(s.over)
	s.tellLocked()
}

func (s *session) tellLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// state tells whether the ensemble is in reach, why the session is over (or nil), and a channel that is closed when
// either changes.
func (s *session) state() (up bool, changed <-chan struct{}, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.up, s.changed, s.cause
}

// after waits until the session has come up more than turn times.
func (s *session) after(ctx context.Context, turn int) error {
	for {
		s.mu.Lock()
		now, up, cause, changed := s.turn, s.up, s.cause, s.changed
		s.mu.Unlock()
		switch {
		case cause != nil:
			return cause
		case now > turn && up:
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (s *session) closing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}
