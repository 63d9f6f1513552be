package ensemble

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

const (
	// maxRequest bounds a request without user data, in bytes. The library would allocate 1.5 MB.
	maxRequest = 64 << 10
	// maxData is how much data a request in the client's own session may have. ZooKeeper's own limit,
	// jute.maxbuffer, is 1,048,575 bytes for the whole request.
	maxData   = 1_000_000
	closeWait = time.Second // for the server's reply to the end of a session
)

// Session is one ZooKeeper session and the only zk.Conn that ever uses it.
type Session struct {
	Client    *Client  // that opened it
	ACL       []zk.ACL // of the znodes that this session creates
	password  string
	resumable bool // reconnects after a broken connection; otherwise the session is then over
	conn      *zk.Conn
	loop      chan struct{}   // closed when the library's loop has ended
	ctx       context.Context // ends at close
	cancel    context.CancelCauseFunc
	once      sync.Once
	over      chan struct{} // closed when the session is over: no more requests
	calls     sync.WaitGroup
	lastZxid  atomic.Int64 // of the replies

	mu       sync.Mutex
	id       int64         // 0 before the first greeting
	timeout  time.Duration // granted
	up       bool
	connects int           // how many times it came up
	changed  chan struct{} // closed at the next change of up or over
	cause    error         // why it is over; nil while it is not
	expiry   *time.Timer   // ends a session that stays out of reach
	link     *link
	dials    int // since the last greeting
	closed   bool
	watches  map[string]watch
	paths    map[string]int // how many watches each path may have
	prune    int            // how many watches there may be before those that have fired are dropped
}

// NewSession opens a session that outlasts its connections, with the client's credentials. ctx only
// bounds the opening, which also fails after the request timeout. The caller closes the session.
func (c *Client) NewSession(ctx context.Context) (*Session, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.RequestTimeout(), c.noAnswer(nil))
	defer cancel()
	return c.openSession(ctx, true)
}

func (c *Client) openSession(ctx context.Context, resumable bool) (*Session, error) {
	s := &Session{
		Client: c, ACL: zk.WorldACL(zk.PermAll), resumable: resumable, loop: make(chan struct{}),
		over:    make(chan struct{}),
		changed: make(chan struct{}),
		watches: map[string]watch{}, paths: map[string]int{},
	}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	limit := maxRequest
	if !resumable { // the client's own session, in which data is written
		limit += maxData
	}
	conn, events, err := zk.Connect(c.Hosts, c.Timeout,
		zk.WithDialer(s.dial), zk.WithHostProvider(&hostList{s: s}), zk.WithEventCallback(s.event),
		zk.WithLogger(debugLogger{c.Log}), zk.WithMaxConnBufferSize(limit))
	if err != nil {
		s.cancel(ErrEnded)
		return nil, err
	}
	s.conn = conn
	go s.drain(events)
	if err := s.handshake(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// ID returns the session's id, the owner of its ephemeral znodes.
func (s *Session) ID() int64 { return s.id }

// Timeout returns the session timeout that the ensemble granted.
func (s *Session) Timeout() time.Duration { return s.timeout }

// drain reads the library's channel until its loop ends. Events come through the callback, because
// the channel drops events when it is full.
func (s *Session) drain(events <-chan zk.Event) {
	defer close(s.loop)
	for range events {
	}
}

// handshake waits until the session is established, then gives the credentials.
func (s *Session) handshake(ctx context.Context) error {
	if err := s.AwaitConnect(ctx, 0); err != nil {
		return err
	}
	if s.Client.User == "" {
		return nil
	}
	var err error
	if s.password, err = s.Client.presentPassword(ctx); err != nil {
		return err
	}
	s.ACL = zk.DigestACL(zk.PermAll, s.Client.User, s.password)
	_, err = Retry(ctx, s, func(conn *zk.Conn) (struct{}, error) {
		return struct{}{}, conn.AddAuth("digest", []byte(s.Client.User+":"+s.password))
	})
	return err
}

// outdated reports whether there is another password by now. To ZooKeeper that is another user, so
// it denies a session what it would allow a new one.
func (s *Session) outdated(ctx context.Context) bool {
	if s.Client.Changing == nil {
		return false
	}
	present, err := s.Client.presentPassword(ctx)
	return err == nil && present != s.password
}

func (c *Client) presentPassword(ctx context.Context) (string, error) {
	if c.Changing == nil {
		return c.Password, nil
	}
	return c.Changing.Read(ctx)
}

// event is the library's callback. It must not block.
func (s *Session) event(e zk.Event) {
	if e.Type != zk.EventSession {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch e.State {
	case zk.StateHasSession:
		s.connects++
		s.dials = 0
		s.Client.noteFailure(nil)
		s.setUpLocked(true)
	case zk.StateDisconnected:
		if s.up {
			s.setUpLocked(false)
		}
		if !s.resumable && s.connects > 0 {
			s.endLocked(errBroken)
		}
	case zk.StateExpired:
		s.endLocked(errExpired)
	}
}

// setUpLocked records whether the ensemble is reachable. A session that is out of reach for its
// timeout is over: otherwise it would dial a wiped server forever, and never resolve names again.
func (s *Session) setUpLocked(up bool) {
	s.up = up
	s.notifyLocked()
	switch {
	case up && s.expiry != nil:
		s.expiry.Stop()
	case !up && s.expiry == nil:
		s.expiry = time.AfterFunc(s.timeout, s.endIfDown)
	case !up:
		s.expiry.Reset(s.timeout)
	}
}

func (s *Session) endIfDown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.up {
		s.endLocked(errExpired)
	}
}

// greeted checks a server's greeting. On an error the library must not see it.
func (s *Session) greeted(g greeting) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.cause != nil:
		return s.cause
	case g.session == 0 || g.timeout <= 0: // the protocol's sign that the session has expired
		s.endLocked(errExpired)
	case s.id == 0:
		s.id, s.timeout = g.session, g.timeout
	// Another session, or one that would end before the local deadline.
	case g.session != s.id || g.timeout < s.timeout:
		s.endLocked(errExpired)
	}
	return s.cause
}

// firedWatches returns the frames that tell the library that all watches have fired.
func (s *Session) firedWatches() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	var frames []byte
	for path := range s.paths {
		frames = append(frames, fired(path)...)
	}
	return frames
}

// end stops further requests and connections. The first cause stays.
func (s *Session) end(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked(cause)
}

func (s *Session) endLocked(cause error) {
	if s.cause != nil {
		return
	}
	s.cause = cause
	close(s.over)
	s.notifyLocked()
}

func (s *Session) notifyLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// State returns whether the ensemble is reachable, why the session is over (or nil), and a channel
// that is closed when either changes.
func (s *Session) State() (up bool, changed <-chan struct{}, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.up, s.changed, s.cause
}

// AwaitConnect waits until the session is up and has come up more than this many times.
func (s *Session) AwaitConnect(ctx context.Context, connects int) error {
	for {
		s.mu.Lock()
		now, up, cause, changed := s.connects, s.up, s.cause, s.changed
		s.mu.Unlock()
		switch {
		case cause != nil:
			return cause
		case now > connects && up:
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (s *Session) closing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}
