package webpage

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/internal/network/clienthost"
	"github.com/ringfence/ringfence/internal/test/must"
)

// pipes is a listener of connections in memory.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Net: "unix"} }

// connect opens a connection and sends a text.
func (p *pipes) connect(t *testing.T, text string) net.Conn {
	t.Helper()
	here, there := net.Pipe()
	p.conns <- there
	_, err := io.WriteString(here, text)
	must.Succeed(t, err)
	return here
}

// serving runs a server until the test ends.
func serving(t *testing.T, l net.Listener, h http.Handler) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Server{Handler: h, Answer: time.Minute, Grace: time.Second}.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		must.Report(t, <-ended)
	})
}

// ok answers without reading the request's body.
func ok(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }

// trickle sends a byte every three seconds until the server has closed the connection.
func trickle(c net.Conn) {
	go func() { _, _ = io.Copy(io.Discard, c) }()
	for range 100 {
		time.Sleep(3 * time.Second)
		if _, err := io.WriteString(c, "x"); err != nil {
			return
		}
	}
	_ = c.Close()
}

func TestAClientThatKeepsTheServerWaitingIsCutOff(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		max  time.Duration
	}{
		"header": {"GET / HTTP/1.1\r\nHost: h\r\nX: ", maxHeader},
		"body":   {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\nx", maxRequest},
		"idle":   {"GET / HTTP/1.1\r\nHost: h\r\n\r\n", maxIdle},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &pipes{make(chan net.Conn), make(chan struct{})}
				serving(t, l, http.HandlerFunc(ok))
				begun := time.Now()
				conn := l.connect(t, c.text)
				if name == "idle" {
					_, _ = io.Copy(io.Discard, conn)
				} else {
					trickle(conn)
				}
				if took := time.Since(begun); took > c.max+3*time.Second {
					t.Errorf("it was cut off after %s", took)
				}
			})
		})
	}
}

// dialFrom opens a connection from an address of this machine, and sends a text.
func dialFrom(t *testing.T, from string, l net.Listener, text string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: time.Minute}
	c, err := d.DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Skip("this system has one address of its own only:", err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(c, text)
	return c
}

func listening(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	return l
}

const request = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"

// answered returns the code of the answer.
func answered(c net.Conn) (int, error) {
	a, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, err
	}
	return a.StatusCode, nil
}

func TestClientsGetConnectionsWhileAnotherHasTakenAll(t *testing.T) {
	l := listening(t)
	serving(t, l, http.HandlerFunc(ok))
	var all []net.Conn
	for range 2 * MaxConnections {
		all = append(all, dialFrom(t, "127.0.0.1", l, "G"))
	}
	for range 3 {
		for _, from := range []string{"127.0.0.1", "127.0.0.2"} {
			if code, err := answered(dialFrom(t, from, l, request)); code != http.StatusOK {
				t.Errorf("from %s: %d, %v", from, code, err)
			}
		}
	}
	for _, c := range all[:MaxConnections] { // the oldest
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("it is still open: %v", err)
		}
	}
}

func TestClientsGetStreamsWhileAnotherHasTakenAll(t *testing.T) {
	l, s := listening(t), NewStreams()
	changed := make(chan struct{})
	serving(t, l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.Serve(w, r, func() {}, func() (any, <-chan struct{}) { return "state", changed })
	}))
	t.Cleanup(s.Close)
	open := func(from string, want int) {
		t.Helper()
		if code, err := answered(dialFrom(t, from, l, request)); code != want {
			t.Errorf("from %s: %d, %v", from, code, err)
		}
	}
	for range MaxStreams {
		open("127.0.0.1", http.StatusOK)
	}
	open("127.0.0.1", http.StatusServiceUnavailable)
	for i := range MaxStreams / 2 {
		open(fmt.Sprint("127.0.0.", 2+i%2), http.StatusOK)
	}
}

func TestPlacesAreSharedByTheAddresses(t *testing.T) {
	var out []string
	p := slots{max: 5}
	take := func(address string, want bool) {
		t.Helper()
		if got := p.acquire(address, func() { out = append(out, address) }) != nil; got != want {
			t.Errorf("%s got a place: %t", address, got)
		}
	}
	for range 5 {
		take("a", true)
	}
	take("a", false)
	take("b", true)
	take("b", true)
	take("b", false) // three and two: one more would only change sides
	take("c", true)
	take("c", false)
	take("d", true)
	take("e", true)
	take("f", false) // everybody has one
	if got := strings.Join(out, " "); got != "a a a a b" {
		t.Errorf("%q lost their places", got)
	}
	if a, b := clienthost.Of("[2001:db8::1]:5"), clienthost.Of("[2001:db8::2]:6"); a != b ||
		a == clienthost.Of("10.0.0.1:5") {
		t.Errorf("one host has two addresses: %q, %q", a, b)
	}
}

// Package net/http clears the deadline of the request while it waits for the next one, so a stream
// outlives it.
func TestAStreamGoesOnAfterTheTimeOfARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s := &pipes{make(chan net.Conn), make(chan struct{})}, NewStreams()
		serving(t, l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.Serve(w, r, func() {}, func() (any, <-chan struct{}) { return "state", nil })
		}))
		conn := l.connect(t, request)
		defer func() { _ = conn.Close() }()
		defer s.Close()
		begun := time.Now()
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		must.Succeed(t, err)
		for lines := bufio.NewScanner(answer.Body); time.Since(begun) <= 2*max(maxRequest, maxIdle); {
			if !lines.Scan() {
				t.Fatalf("it ended after %s: %v", time.Since(begun), lines.Err())
			}
		}
	})
}
