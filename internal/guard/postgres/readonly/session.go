package readonly

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/guard/postgres/wire"
	"github.com/ringfence/ringfence/internal/guard/relay"
)

// Session is a session without a token.
type Session struct {
	client     *guard.Client
	server     net.Conn
	fromClient *bufio.Reader
	fromServer *bufio.Reader
	toServer   *bufio.Writer
	toClient   *bufio.Writer
	nonce      string // the statement that replaces a refused one

	// Since the last report of the settings:
	begun    bool // something was passed on
	executed bool // an Execute was, which may have ended the transaction
	limited  bool // it had a limit of rows, at which it may have stopped

	skipping bool // the client's messages are left out up to its Sync, as the server does after an error

	mu       sync.Mutex
	news     sync.Cond // what follows has changed
	asked    bool      // a ReadyForQuery is due
	own      bool      // it answers a Sync of the guard
	outcome  byte      // how an Execute has ended since the last report: C, I, s, or E for any error
	failed   bool      // there was an error before the last report
	over     bool      // nothing more comes from the server
	reported map[string]string
	refused  *fence.Refusal // since the last report; nothing passes behind it
	status   byte           // of the last ReadyForQuery
	busy     bool           // a batch is under way
	draining bool
	cut      bool  // the client may have got a part of a message
	failure  error // why nothing more is passed on
}

// New returns the session of a client that has logged in. reported are the settings that the server has
// reported; nothing is wrong with them (Changed).
func New(
	c *guard.Client, server net.Conn, fromClient, fromServer *bufio.Reader, reported map[string]string,
) *Session {
	r := &Session{
		client: c, server: server, fromClient: fromClient, fromServer: fromServer,
		toServer: bufio.NewWriter(server), toClient: bufio.NewWriter(c),
		reported: reported, nonce: "ringfence_refused_" + strings.ToLower(rand.Text()), status: 'I',
	}
	r.news.L = &r.mu
	return r
}

// State returns what the session does, or did when it ended, in the words of pg_stat_activity.
func (r *Session) State() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return wire.Activity(r.busy, r.status)
}

// Serve relays until one side leaves, closes both connections, and says why to a client that has not
// left. Its error is for guard.Protocol.
func (r *Session) Serve(ctx context.Context) error {
	unhook := relay.WhenOver(ctx, func() {
		_ = r.client.SetDeadline(relay.Past)
		_ = r.server.SetDeadline(relay.Past)
	})
	stopWatching := r.client.WhenDraining(r.drain)
	err := r.run()
	stopWatching()
	unhook()
	return r.end(ctx, err)
}

var (
	errLeft    = errors.New("the client has left")
	errDrained = errors.New("the guard is shutting down")
)

// run relays until one side leaves. It returns why.
func (r *Session) run() error {
	var down sync.WaitGroup
	var crash error
	down.Go(func() {
		defer r.tell(func() { r.over = true })
		defer func() {
			crash = relay.Crashed(recover())
			_ = r.client.SetReadDeadline(relay.Past)
		}()
		r.fail(r.downward())
	})
	r.fail(r.upward())
	_ = r.server.Close()
	down.Wait()
	if crash != nil {
		panic(crash) // in the goroutine that serves this client, where it ends this one connection
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failure
}

// fail keeps the first reason.
func (r *Session) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failure == nil {
		r.failure = err
	}
}

// tell changes something that may be awaited.
func (r *Session) tell(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
	r.news.Broadcast()
}

// drain ends the session as soon as it is idle.
func (r *Session) drain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.draining = true
	if !r.busy && r.status == 'I' {
		_ = r.client.SetReadDeadline(relay.Past)
	}
}

// end closes the connections of a session that has ended, and sends the client the reason if a message
// may begin there.
func (r *Session) end(ctx context.Context, err error) error {
	_ = r.server.Close()
	r.client.Seat.Waiting()
	_ = r.client.SetWriteDeadline(time.Now().Add(guard.LastWordTime))
	r.cut = r.cut || r.toClient.Flush() != nil
	var refused *fence.Refusal
	evicting := errors.Is(context.Cause(ctx), guard.Evicted)
	switch {
	case r.cut, errors.Is(err, errLeft):
	case evicting:
		guard.Dismiss(r.client, wire.Fatal(wire.Evicted))
	case ctx.Err() != nil, errors.Is(err, errDrained):
		_ = r.client.LastWord(wire.Fatal(wire.ShuttingDown))
	case errors.As(err, &refused), wire.IsViolation(err):
		_ = r.client.LastWord(wire.Fatal(err))
		return err
	default:
		guard.CloseGently(r.client) // the server has said why, if it has
	}
	if evicting {
		return guard.Evicted
	}
	return nil
}
