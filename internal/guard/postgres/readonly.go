package postgres

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/refusal"
	"github.com/ringfence/ringfence/internal/relay"
)

// A session without a token is relayed in lockstep: a batch of the client, up to Query or Sync, is
// answered before the next one is looked at. Two things keep it from writing:
//
//   - Its transactions are read-only, because the guard has set default_transaction_read_only for it.
//     If the session changes that, the server reports it before the batch ends (from Postgres 14 on),
//     and the guard ends the session before another batch.
//   - Within a batch only listed statements pass (judge), and none after the end of a transaction. So
//     every statement of a batch is in a transaction that began under the setting.
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

const (
	maxReadMessage = 1 << 20 // bytes of one message of a client without a token
	maxEnders      = 1000    // prepared statements of one session that may end a transaction
)

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
	return lowerASCII(r)
}

// checkReadOnly refuses a session that cannot be kept from writing.
func (p *Protocol) checkReadOnly(l *login, s *startup) error {
	switch {
	case s.get("replication") != "":
		return refusal.NoReadOnly("it is a replication connection")
	case s.database() != p.o.Store.Database():
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
		reported: l.reported, nonce: "ringfence_refused_" + strings.ToLower(rand.Text()) + "_",
		enders: make(map[string]bool), ready: make(chan struct{}, 1), gone: make(chan struct{}),
	}
	unhook := relay.WhenOver(ctx, func() {
		_ = l.client.SetDeadline(relay.Past)
		_ = l.server.SetDeadline(relay.Past)
	})
	stopWatching := l.client.WhenDraining(r.drain)
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
	nonce      string // begins the name of a statement that replaces a refused one

	// The batch under way, as the client has sent it.
	begun    bool // something of it was passed on
	executed bool // a statement of it was executed, which may have changed a setting
	ended    bool // it may have ended a transaction

	unnamed       bool            // the unnamed prepared statement may end a transaction
	unnamedPortal bool            // so may the unnamed portal
	enders        map[string]bool // named statements that may: they are never forgotten

	ready chan struct{} // has a value when the server has answered a batch
	gone  chan struct{} // closed when nothing more comes from the server

	mu       sync.Mutex
	reported map[string]string
	refused  []*fence.Refusal // of this batch
	status   byte             // of the last ReadyForQuery
	busy     bool             // a batch is under way
	draining bool
	cut      bool  // the client may have got a part of a message
	failure  error // why nothing more is passed on
}

// run relays until one side leaves. It returns why.
func (r *readOnly) run() error {
	r.status = 'I'
	var down sync.WaitGroup
	var crash error
	down.Go(func() {
		defer close(r.gone)
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

// upward passes on what the client may send.
func (r *readOnly) upward() error {
	for {
		if err := r.idle(); err != nil {
			return err
		}
		kind, body, err := r.read()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return errDrained
		case err != nil:
			return err
		}
		r.setBusy(true)
		if err := r.pass(kind, body); err != nil {
			return err
		}
	}
}

// idle says that nothing is under way, if that is so. The guard never counts as working for such a
// client: however long its queries take, it gives way to others.
func (r *readOnly) idle() error {
	if r.fromClient.Buffered() == 0 {
		if err := r.toServer.Flush(); err != nil {
			return err
		}
		r.client.Seat.Waiting()
	}
	if r.begun {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy = false
	if r.draining && r.status == 'I' {
		return errDrained
	}
	return r.failure
}

func (r *readOnly) setBusy(busy bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy = busy
}

// read reads a message of the client.
func (r *readOnly) read() (kind byte, body []byte, err error) {
	head, err := r.fromClient.Peek(5)
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = errLeft
		}
		return 0, nil, err
	}
	kind = head[0]
	length := binary.BigEndian.Uint32(head[1:])
	if length < 4 || length > maxReadMessage {
		return 0, nil, violation("message %q of %d bytes; a session without a token may send %d",
			kind, length, maxReadMessage)
	}
	if _, err := r.fromClient.Discard(5); err != nil {
		return 0, nil, err
	}
	var all bytes.Buffer // it grows with what comes, and not with what the client announces
	if _, err = io.CopyN(&all, r.fromClient, int64(length-4)); errors.Is(err, io.EOF) {
		err = errLeft
	}
	return kind, all.Bytes(), err
}

// pass decides on one message, and waits for the answer at the end of a batch.
func (r *readOnly) pass(kind byte, body []byte) error {
	if r.begun && (kind == 'Q' || kind == 'F') {
		// After an error the server would skip it and never answer.
		return violation("message %q before the Sync of a pipeline", kind)
	}
	switch kind {
	case 'Q':
		why := ""
		if text, rest, ok := cstring(body); !ok || len(rest) > 0 {
			why = "the message has another form than a query"
		} else {
			why = r.judged(judge(text))
		}
		if err := r.send(kind, body, why); err != nil {
			return err
		}
		return r.answer()
	case 'F':
		if err := r.send('Q', nil, "a function call by the protocol is no statement that the guard can read"); err != nil {
			return err
		}
		return r.answer()
	case 'S':
		if err := r.send(kind, body, ""); err != nil {
			return err
		}
		return r.answer()
	case 'P':
		return r.send(kind, body, r.parse(body))
	case 'B':
		return r.send(kind, body, r.bind(body))
	case 'E':
		return r.send(kind, body, r.execute(body))
	case 'D', 'C', 'H':
		if err := r.send(kind, body, ""); err != nil || kind != 'H' {
			return err
		}
		return r.toServer.Flush()
	case 'd', 'c', 'f':
		return nil // of a COPY FROM that was refused; the server ignores them
	case 'X':
		return errLeft
	}
	return violation("message %q in a session without a token", kind)
}

// judged returns why a text is refused here.
func (r *readOnly) judged(j judgement) string {
	switch {
	case j.refused != "":
		return j.refused
	case r.ended:
		return nothingNext
	case j.depends && r.executed:
		return "a backslash in a string, after a statement of the same batch that may have changed what it means"
	}
	return ""
}

// parse decides on a Parse.
func (r *readOnly) parse(body []byte) (why string) {
	name, rest, ok := cstring(body)
	text, _, ok2 := cstring(rest)
	if !ok || !ok2 {
		return "the message has another form than Parse"
	}
	j := judge(text)
	if why := r.judged(j); why != "" {
		return why
	}
	switch {
	case name == "":
		r.unnamed = j.ends
	case j.ends && len(r.enders) >= maxEnders:
		return "the session has prepared too many statements that end transactions"
	case j.ends:
		r.enders[name] = true
	}
	return ""
}

// bind decides on a Bind.
func (r *readOnly) bind(body []byte) (why string) {
	portal, rest, ok := cstring(body)
	statement, _, ok2 := cstring(rest)
	ends := statement == "" && r.unnamed || r.enders[statement]
	switch {
	case !ok || !ok2:
		return "the message has another form than Bind"
	case r.ended:
		return nothingNext
	case portal != "" && ends:
		return "a portal with a name must not end a transaction"
	case portal == "":
		r.unnamedPortal = ends
	}
	r.executed = true // to plan a query, the server may call functions in it
	return ""
}

// execute decides on an Execute.
func (r *readOnly) execute(body []byte) (why string) {
	portal, _, ok := cstring(body)
	switch {
	case !ok:
		return "the message has another form than Execute"
	case r.ended:
		return nothingNext
	}
	r.executed = true
	r.ended = portal == "" && r.unnamedPortal
	return ""
}

// send passes a message on, or in its place one that the server refuses, if there is a reason to.
func (r *readOnly) send(kind byte, body []byte, why string) error {
	r.begun = true
	if why != "" {
		r.mu.Lock()
		r.refused = append(r.refused, refusal.ReadOnly(why))
		junk := r.nonce + strconv.Itoa(len(r.refused)-1)
		r.mu.Unlock()
		if kind == 'Q' {
			return send(r.toServer, &pgproto3.Query{String: junk})
		}
		return send(r.toServer, &pgproto3.Parse{Query: junk})
	}
	head := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)+4))
	if _, err := r.toServer.Write(head); err != nil {
		return err
	}
	_, err := r.toServer.Write(body)
	return err
}

// answer waits until the server has answered the batch.
func (r *readOnly) answer() error {
	if err := r.toServer.Flush(); err != nil {
		return err
	}
	select {
	case <-r.ready:
	case <-r.gone:
		return errDown
	}
	r.begun, r.executed, r.ended = false, false, false
	return nil
}

// errDown means that downward has the reason.
var errDown = errors.New("nothing more comes from the server")

// downward passes on what the server sends.
func (r *readOnly) downward() error {
	for {
		head, err := r.fromServer.Peek(5)
		if err != nil {
			_ = r.flush()
			return serverError(err)
		}
		kind, length := head[0], int64(binary.BigEndian.Uint32(head[1:]))+1
		if length < 5 {
			return violation("message %q of %d bytes from the server", kind, length-1)
		}
		if err := r.forward(kind, length); err != nil {
			return err
		}
		if kind == 'Z' || r.fromServer.Buffered() == 0 {
			if err := r.flush(); err != nil {
				return err
			}
		}
		if kind == 'Z' {
			r.ready <- struct{}{}
		}
	}
}

// forward passes on one message of the server. Long ones pass as they come.
func (r *readOnly) forward(kind byte, length int64) error {
	const most = 64 << 10
	if length > most || kind != 'E' && kind != 'S' && kind != 'Z' {
		_, err := io.CopyN(readOnlyWriter{r}, r.fromServer, length)
		return r.wrote(err) // the client may have got a part of it
	}
	message := make([]byte, length)
	if _, err := io.ReadFull(r.fromServer, message); err != nil {
		return serverError(err)
	}
	switch kind {
	case 'E':
		message = r.explained(message)
	case 'S':
		var s pgproto3.ParameterStatus
		if err := s.Decode(message[5:]); err != nil {
			return err
		}
		r.mu.Lock()
		r.reported[s.Name] = s.Value
		r.mu.Unlock()
	case 'Z':
		if err := r.answered(message); err != nil {
			return err
		}
	}
	_, err := readOnlyWriter{r}.Write(message)
	return err
}

// explained replaces the server's error about a statement that the guard has put in place of a refused
// one.
func (r *readOnly) explained(message []byte) []byte {
	var e pgproto3.ErrorResponse
	if e.Decode(message[5:]) != nil {
		return message
	}
	_, rest, ok := strings.Cut(e.Message, r.nonce)
	if !ok {
		return message
	}
	digits := 0
	for digits < len(rest) && isDigit(rest[digits]) {
		digits++
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	n, err := strconv.Atoi(rest[:digits])
	if err != nil || n >= len(r.refused) {
		return message
	}
	own := errorResponse(r.refused[n])
	own.Severity, own.SeverityUnlocalized = "ERROR", "ERROR"
	return encoded(own)
}

// answered checks the settings before the next batch.
func (r *readOnly) answered(message []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused = nil
	if len(message) == 6 {
		r.status = message[5]
	}
	if name, value := changed(r.reported); name != "" {
		return refusal.NoLongerReadOnly(name, value)
	}
	return nil
}

// readOnlyWriter writes to the client.
type readOnlyWriter struct{ *readOnly }

func (w readOnlyWriter) Write(b []byte) (int, error) {
	n, err := w.toClient.Write(b)
	return n, w.wrote(err)
}

func (r *readOnly) flush() error { return r.wrote(r.toClient.Flush()) }

// wrote remembers that a write has failed, perhaps in the middle of a message.
func (r *readOnly) wrote(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = r.cut || err != nil
	return err
}

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
