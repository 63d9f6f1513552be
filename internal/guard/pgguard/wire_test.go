package pgguard

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/ringfence/ringfence/internal/guard/pgguard/wire"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
)

// rawClient is a client that sends and reads single messages.
type rawClient struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
}

// message is one message of a server, with its kind and body.
type message struct {
	kind byte
	body []byte
}

func dialWire(t *testing.T, addr string) *rawClient {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	must.Succeed(t, err)
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute)) // for the whole test
	return &rawClient{t, c, bufio.NewReader(c)}
}

func (w *rawClient) send(parts ...[]byte) {
	w.t.Helper()
	_, err := w.Write(bytes.Join(parts, nil))
	must.Succeed(w.t, err)
}

// next reads the next message of the server; the end of the stream fails the test.
func (w *rawClient) next() message {
	w.t.Helper()
	_, whole, err := wire.Read(w.r)
	if err != nil {
		w.t.Fatalf("waiting for a message: %v", err)
	}
	return message{whole[0], whole[5:]}
}

// until reads up to the first message of one of these kinds and returns it.
func (w *rawClient) until(kinds string) message {
	w.t.Helper()
	for {
		if m := w.next(); strings.IndexByte(kinds, m.kind) >= 0 {
			return m
		}
	}
}

// rest reads all bytes until the server closes.
func (w *rawClient) rest() []byte {
	w.t.Helper()
	b, err := io.ReadAll(w.r)
	if err != nil && !errors.Is(err, io.EOF) {
		w.t.Fatalf("after %d bytes: %v", len(b), err)
	}
	return b
}

// login opens a session that needs no password.
func (w *rawClient) login(params ...string) {
	w.t.Helper()
	w.send(startupOf(0, params...))
	if m := w.until("ZE"); m.kind == 'E' {
		w.t.Fatalf("refused: %+v", m.error(w.t))
	}
}

// query sends a simple query.
func (w *rawClient) query(text string) { w.t.Helper(); w.send(encode('Q', text, "\x00")) }

func (m message) error(t *testing.T) (e pgproto3.ErrorResponse) {
	t.Helper()
	if m.kind != 'E' {
		t.Fatalf("message %q is not an error", m.kind)
	}
	must.Succeed(t, e.Decode(m.body))
	return e
}

// startupOf returns a startup packet of protocol 3.minor. pairs are names and values in turn.
func startupOf(minor uint16, pairs ...string) []byte {
	var params []wire.Param
	for i := 0; i+1 < len(pairs); i += 2 {
		params = append(params, wire.Param{Name: pairs[i], Value: pairs[i+1]})
	}
	return wire.EncodeStartup(minor, params)
}

// request returns a first packet that has a code instead of a version.
func request(code uint32, body ...byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(8+len(body)))
	return append(binary.BigEndian.AppendUint32(b, code), body...)
}

// encode returns one message.
func encode(kind byte, parts ...string) []byte {
	body := strings.Join(parts, "")
	b := binary.BigEndian.AppendUint32([]byte{kind}, uint32(4+len(body)))
	return append(b, body...)
}

// messages splits a server's stream into messages. left is the rest after the last whole message.
func messages(stream []byte) (all []message, left []byte) {
	for len(stream) >= 5 {
		n := 1 + int(binary.BigEndian.Uint32(stream[1:]))
		if n < 5 || n > len(stream) {
			break
		}
		all = append(all, message{stream[0], stream[5:n]})
		stream = stream[n:]
	}
	return all, stream
}

// tap is a relay between guard and Postgres. It records what goes to the server, and can direct
// connections to another server.
type tap struct {
	net.Listener
	to    string // the address for new connections; once, if set, is for the next one only
	once  string
	mu    sync.Mutex
	conns []*tapped
	all   sync.WaitGroup
}

type tapped struct {
	client, server net.Conn

	mu      sync.Mutex
	up      bytes.Buffer
	changed *sync.Cond
	limited bool // only so many more bytes go to the server
	allowed int
	held    int  // bytes of the last read that have not gone to the server
	lost    bool // what is sent to the server from now on never arrives, and nobody hears of it
}

// tapBefore starts a tap and returns it with a control URL through it.
func tapBefore(t *testing.T, pg *servers.Postgres, database string) (*tap, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	p := &tap{Listener: l, to: pg.Addr()}
	p.all.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.cut()
		p.all.Wait()
	})
	return p, strings.Replace(pg.URL("guard_role", database), pg.Addr(), l.Addr().String(), 1)
}

func (p *tap) accept() {
	for {
		client, err := p.Accept()
		if err != nil {
			return
		}
		to := p.target()
		server, err := net.Dial("tcp", to)
		if err != nil {
			_ = client.Close()
			continue
		}
		c := &tapped{client: client, server: server}
		c.changed = sync.NewCond(&c.mu)
		p.mu.Lock()
		p.conns = append(p.conns, c)
		p.mu.Unlock()
		p.all.Go(func() {
			_, _ = io.Copy(c, client)
			if !c.isLost() {
				_ = server.(*net.TCPConn).CloseWrite()
			}
		})
		p.all.Go(func() { _, _ = io.Copy(client, server); _ = client.Close() })
	}
}

// redirect sends new connections to another server. Open ones stay, as with a load balancer after a
// failover.
func (p *tap) redirect(to string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.to = to
}

// redirectNext sends only the next connection to another server.
func (p *tap) redirectNext(to string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.once = to
}

func (p *tap) target() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	to := cmp.Or(p.once, p.to)
	p.once = ""
	return to
}

// Write records bytes and sends them to the server, as far as they may pass.
func (c *tapped) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.up.Write(b)
	c.changed.Broadcast()
	c.held = len(b)
	for rest := b; len(rest) > 0; {
		for c.limited && c.allowed == 0 && !c.lost {
			c.changed.Wait()
		}
		n := len(rest)
		if c.limited {
			n = min(n, c.allowed)
			c.allowed -= n
		}
		if c.lost {
			return len(b), nil
		}
		if _, err := c.server.Write(rest[:n]); err != nil {
			return 0, err
		}
		rest = rest[n:]
		c.held = len(rest)
	}
	return len(b), nil
}

// holds reports whether something is held back.
func (c *tapped) holds() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held > 0
}

// passOnly lets n more bytes through to the server, and holds what comes behind them, until pass.
func (c *tapped) passOnly(n int) { c.change(func() { c.limited, c.allowed = true, n }) }

func (c *tapped) pass() { c.change(func() { c.limited = false }) }

// lose drops whatever is sent to the server from now on, and the end of the connection, too.
func (c *tapped) lose() { c.change(func() { c.lost = true }) }

func (c *tapped) isLost() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lost
}

func (c *tapped) change(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do()
	c.changed.Broadcast()
}

func (p *tap) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.pass()
		_ = c.client.Close()
		_ = c.server.Close()
	}
}

// of returns the connections whose startup packet names this user, the oldest first.
func (p *tap) of(user string) (all []*tapped) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		if bytes.Contains(c.sent(), []byte("user\x00"+user+"\x00")) {
			all = append(all, c)
		}
	}
	return all
}

// sent returns what was sent to the server.
func (c *tapped) sent() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Clone(c.up.Bytes())
}

// until waits until this holds of what was sent to the server.
func (c *tapped) until(holds func(sent []byte) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !holds(c.up.Bytes()) {
		c.changed.Wait()
	}
}

// sentBy returns what went to the server on the connections whose startup packet names this user.
func (p *tap) sentBy(user string) [][]byte {
	var all [][]byte
	for _, c := range p.of(user) {
		all = append(all, c.sent())
	}
	return all
}

// markOf reads a mark from the database; 0 when there is none.
func (g *guarded) markOf(resource string) int {
	g.t.Helper()
	return g.count("select coalesce(max(token), 0) from ringfence_private.mark where resource = '" +
		resource + "'")
}
