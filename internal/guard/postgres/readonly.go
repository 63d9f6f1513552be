package postgres

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/pglex"
	"github.com/ringfence/ringfence/internal/refusal"
	"github.com/ringfence/ringfence/internal/relay"
)

// A session without a token may only read. Three rules ensure that:
//
//   - A transaction begins read-only, because the guard has set default_transaction_read_only for the
//     session. The server reports that setting before each ReadyForQuery (from Postgres 14 on), and
//     the guard ends a session that has changed it.
//   - Between the end of a transaction and the beginning of the next one there is such a report. The
//     server answers a Query or a Sync before the guard looks at the next message. Behind an Execute
//     the guard sends a Sync of its own, unless the client's comes next (report). After an error the
//     server skips everything up to a Sync. In a Query nothing may follow the end of a transaction.
//   - Only listed statements pass (judge). None of them makes a transaction writable, writes although
//     it is read-only, or commits inside itself. A text is read with the settings of the last report:
//     one that depends on them waits for a report, too.
//
// So every statement is in a transaction that began under the setting. Parsing and planning can run
// functions, which can change settings, but end no transaction. It does not matter which statement an
// Execute runs. The server tells names of statements apart in its own way: by their first 63 bytes, in
// its own encoding, and without a Parse that it has skipped. So the guard goes by no name.
//
// A refused statement is replaced by one that the server cannot parse, with a name that nobody can
// guess, and the server's error by the guard's. So the error comes in its place, and aborts a
// transaction or a pipeline as any error does.

// readOnlySettings are what the session must not have otherwise when its next batch is looked at: the
// first makes its transactions read-only, the second is what lex relies on.
var readOnlySettings = []param{
	{"default_transaction_read_only", "on"}, {"standard_conforming_strings", "on"},
}

// unsafeEncodings have characters whose second byte is a backslash in ASCII, so a string can end where
// lex does not see it.
var unsafeEncodings = []string{"SJIS", "BIG5", "GBK", "UHC", "GB18030", "JOHAB", "SHIFT_JIS_2004"}

// maxReadMessage is the most bytes of one message of a client without a token.
const maxReadMessage = 1 << 20

// readOnlyLogin returns the startup packet with the settings of a session without a token. They come
// last, so they replace those of the client's options.
func readOnlyLogin(s *startup) []byte {
	var kept []param
	for _, p := range s.params {
		name := strings.Map(fold, p.name)
		locked := name == "transaction_read_only" ||
			slices.ContainsFunc(readOnlySettings, func(r param) bool { return r.name == name })
		if !locked && !strings.HasPrefix(p.name, "_pq_.") {
			kept = append(kept, p)
		}
	}
	return encodeStartup(s.granted(), append(kept, readOnlySettings...))
}

func fold(r rune) rune {
	if r == '-' {
		return '_'
	}
	return pglex.Lower(r)
}

// checkReadOnly refuses a session that cannot be kept from writing.
func (p *Protocol) checkReadOnly(l *login, s *startup) error {
	switch {
	case s.get("replication") != "":
		return refusal.NoReadOnly("it is a replication connection")
	case p.o.Another == nil && s.database() != p.o.Store.Database():
		return refusal.NoReadOnly(fmt.Sprintf("it asks for database %q, and this guard is for %q",
			s.database(), p.o.Store.Database()))
	case l.reported["is_superuser"] != "off":
		return refusal.NoReadOnly("a superuser can write without a transaction, such as files of the server")
	}
	if name, value := changed(l.reported); name != "" {
		return refusal.NoReadOnly(fmt.Sprintf("the server says that %s is %q; it has to be Postgres 14 or later",
			name, value))
	}
	return nil
}

// changed returns a setting that is not as it has to be.
func changed(reported map[string]string) (name, value string) {
	for _, r := range readOnlySettings {
		if reported[r.name] != r.value {
			return r.name, reported[r.name]
		}
	}
	if slices.Contains(unsafeEncodings, strings.ToUpper(reported["client_encoding"])) {
		return "client_encoding", reported["client_encoding"]
	}
	return "", ""
}

// serveReadOnly serves a client that has logged in without a token, until it leaves.
func (p *Protocol) serveReadOnly(ctx context.Context, l *login, s *startup) error {
	if err := p.checkReadOnly(l, s); err != nil {
		return p.failAdmission(ctx, l, err)
	}
	l.client.Seat.EndLogin() // the role's own limit of connections counts from now on
	_, _ = l.out.Write(l.ready)
	if l.out.Flush() != nil {
		_ = l.server.Close()
		return nil
	}
	_ = l.client.SetDeadline(time.Time{})
	_ = l.server.SetDeadline(time.Time{})
	r := &readOnly{
		client: l.client, server: l.server, fromClient: l.fromClient, fromServer: l.fromServer,
		toServer: bufio.NewWriter(l.server), toClient: bufio.NewWriter(l.client),
		reported: l.reported, nonce: "ringfence_refused_" + strings.ToLower(rand.Text()),
		status: 'I',
	}
	r.news.L = &r.mu
	unhook := relay.WhenOver(ctx, func() {
		_ = l.client.SetDeadline(relay.Past)
		_ = l.server.SetDeadline(relay.Past)
	})
	stopWatching := l.client.WhenDraining(r.drain)
	remove := p.readers.add(r, reader{s.database(), l.pid, marks.ClientOf(ctx), time.Now()})
	defer remove()
	err := r.run()
	stopWatching()
	unhook()
	return r.end(ctx, err)
}

// readOnly is a session without a token.
type readOnly struct {
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

// run relays until one side leaves. It returns why.
func (r *readOnly) run() error {
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
func (r *readOnly) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failure == nil {
		r.failure = err
	}
}

// drain ends the session as soon as it is idle.
func (r *readOnly) drain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.draining = true
	if !r.busy && r.status == 'I' {
		_ = r.client.SetReadDeadline(relay.Past)
	}
}

// errLeft ends the session of a client that has left.
var errLeft = errors.New("the client has left")

// end closes the connections of a session that has ended, and sends the client the reason if a message
// may begin there.
func (r *readOnly) end(ctx context.Context, err error) error {
	_ = r.server.Close()
	r.client.Seat.Waiting()
	_ = r.client.SetWriteDeadline(time.Now().Add(guard.LastWordTime))
	r.cut = r.cut || r.toClient.Flush() != nil
	var refused *fence.Refusal
	var bad *protocolError
	evicting := errors.Is(context.Cause(ctx), guard.Evicted)
	if r.cut || errors.Is(err, errLeft) {
		if evicting {
			return guard.Evicted
		}
		return nil
	}
	switch {
	case evicting:
		guard.Dismiss(r.client, encoded(evicted()))
		return guard.Evicted
	case ctx.Err() != nil, errors.Is(err, errDrained):
		_ = r.client.LastWord(encoded(shuttingDown()))
	case errors.As(err, &refused), errors.As(err, &bad):
		_ = r.client.LastWord(encoded(errorResponse(err)))
		return err
	default:
		guard.CloseGently(r.client) // the server has said why, if it has
	}
	return nil
}
