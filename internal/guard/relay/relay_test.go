package relay

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/network/tlsconfig"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// through forwards every byte.
type through struct{}

func (through) Walk(b []byte, w io.Writer) (int, error) { return w.Write(b) }

// whole forwards whole messages only; a message ends in a dot.
type whole struct{}

func (whole) Walk(b []byte, w io.Writer) (int, error) {
	n := bytes.LastIndexByte(b, '.') + 1
	if n == 0 {
		return 0, nil
	}
	return w.Write(b[:n])
}

type bad struct{ panics bool }

func (b bad) Walk(p []byte, _ io.Writer) (int, error) {
	if b.panics {
		panic("a bug in a walker")
	}
	return 0, errors.New("not a message")
}

// pair returns both ends of a TCP connection.
func pair(t *testing.T) (near, far *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	must.Succeed(t, err)
	s, err := l.Accept()
	must.Succeed(t, err)
	t.Cleanup(func() { _ = c.Close(); _ = s.Close() })
	return s.(*net.TCPConn), c.(*net.TCPConn)
}

// peer is the far end of a connection.
type peer interface {
	net.Conn
	CloseWrite() error
}

// relayed is a running relay, with the far ends of its connections.
type relayed struct {
	client, server peer
	inner, outer   net.Conn // the relay's ends of the two
	cut            context.CancelCauseFunc
	end            chan End
	panicked       chan any
}

// engine makes a relay's connection of an ordinary one, and what its peer has to use.
type engine func(near, far *net.TCPConn) (net.Conn, peer)

func inGoroutine(near, far *net.TCPConn) (net.Conn, peer) { return near, far }

// onEachEngine runs a test of Relay with goroutines and, on Linux, in loops; with TLS and without,
// and with TLS for one of the two sides.
func onEachEngine(t *testing.T, test func(*testing.T, engine)) {
	onEachConnection(t, test)
	t.Run("loops, TLS with the client", func(t *testing.T) {
		test(t, onLoop(t, inTurn(inTLS12(t), inGoroutine)))
	})
	t.Run("loops, TLS with the server", func(t *testing.T) {
		test(t, onLoop(t, inTurn(inGoroutine, inTLS12(t))))
	})
}

// onEachConnection runs a test of a connection.
func onEachConnection(t *testing.T, test func(*testing.T, engine)) {
	onEachSocket(t, test)
	t.Run("TLS", func(t *testing.T) { test(t, inTLS(t)) })
	t.Run("loops, TLS", func(t *testing.T) { test(t, onLoop(t, inTLS(t))) })
}

// onEachSocket runs a test of a connection, without TLS.
func onEachSocket(t *testing.T, test func(*testing.T, engine)) {
	t.Run("goroutines", func(t *testing.T) { test(t, inGoroutine) })
	t.Run("loops", func(t *testing.T) { test(t, onLoop(t, inGoroutine)) })
}

// onLoop has a loop watch what e makes. There is one loop, so that flows are in each other's way.
func onLoop(t *testing.T, e engine) engine {
	loops, err := StartLoops(1)
	must.Succeed(t, err)
	t.Cleanup(loops.Close)
	return func(near, far *net.TCPConn) (net.Conn, peer) {
		inner, outer := e(near, far)
		other, _ := pair(t)
		watched, second := loops.Adopt(inner, other)
		t.Cleanup(func() { _ = errors.Join(watched.Close(), second.Close()) })
		return watched, outer
	}
}

// inTurn makes the first connection with one engine, the second with the other, and so on. A test
// makes that of the client first.
func inTurn(first, second engine) engine {
	return func(near, far *net.TCPConn) (net.Conn, peer) {
		e := first
		first, second = second, first
		return e(near, far)
	}
}

// inTLS encrypts connections with the newest version of TLS.
func inTLS(t *testing.T) engine { return (&encrypting{}).engine(t) }

// inTLS12 uses the one before, whose records are different.
func inTLS12(t *testing.T) engine {
	return (&encrypting{config: tls.Config{MaxVersion: tls.VersionTLS12}}).engine(t)
}

// encrypting says what the peer of an encrypted connection does.
type encrypting struct {
	config tls.Config
	below  func(far net.Conn) net.Conn // wraps the connection below TLS; nil: not at all
	early  func(*tls.Conn)             // is called when its own part of the handshake is done
}

// engine encrypts connections.
func (o *encrypting) engine(t *testing.T) engine {
	o.config.InsecureSkipVerify = true
	pair := serverstest.NewAuthority(t).Issue("relay")
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	must.Succeed(t, err)
	server := &tls.Config{Certificates: []tls.Certificate{certificate}}
	return func(near, far *net.TCPConn) (net.Conn, peer) {
		var err error
		var below net.Conn = far
		if o.below != nil {
			below = o.below(far)
		}
		inner, outer := tls.Server(tlsconfig.NewTransport(near, nil), server),
			tls.Client(below, &o.config)
		var both sync.WaitGroup
		both.Go(func() { err = inner.Handshake() })
		must.Succeed(t, outer.Handshake())
		if o.early != nil {
			o.early(outer)
		}
		if both.Wait(); err != nil {
			t.Fatal(err)
		}
		return inner, outer
	}
}

func relay(t *testing.T, e engine, up, down Walker) *relayed {
	t.Helper()
	return runTo(t, e, up, down, Liveness{})
}

func runTo(t *testing.T, e engine, up, down Walker, alive Liveness) *relayed {
	t.Helper()
	inner, client := e(pair(t))
	outer, server := e(pair(t))
	ctx, cut := context.WithCancelCause(context.Background())
	r := &relayed{client: client, server: server, inner: inner, outer: outer, cut: cut,
		end:      make(chan End, 1),
		panicked: make(chan any, 1)}
	var running sync.WaitGroup
	running.Go(func() {
		defer func() {
			if p := recover(); p != nil {
				r.panicked <- p
			}
		}()
		r.end <- Start(ctx, Leg{Conn: inner}, Leg{Conn: outer}, up, down, alive).Wait()
	})
	t.Cleanup(func() { cut(nil); running.Wait() })
	for _, c := range []net.Conn{client, server} {
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	}
	return r
}

func TestBytesPassBothWaysUntilTheClientHasLeftAndTheServerHasFinished(t *testing.T) {
	onEachEngine(t, func(t *testing.T, engine engine) {
		r := relay(t, engine, through{}, whole{})
		_, _ = r.client.Write([]byte("question"))
		_ = r.client.CloseWrite()
		if b, err := io.ReadAll(r.server); err != nil || string(b) != "question" {
			t.Fatalf("%q, %v", b, err)
		}
		for _, part := range []string{"an", " ans", "wer.", "and", " more."} {
			_, _ = r.server.Write([]byte(part))
		}
		_ = r.server.Close()
		b := make([]byte, len("an answer.and more."))
		if _, err := io.ReadFull(r.client, b); err != nil || string(b) != "an answer.and more." {
			t.Fatalf("%q, %v", b, err)
		}
		if e := <-r.end; e.Side != ClientSide || e.Err != nil {
			t.Errorf("the relay ended with %+v", e)
		}
	})
}

func TestWhenTheServerLeavesTheClientCanStillBeTold(t *testing.T) {
	onEachEngine(t, func(t *testing.T, engine engine) {
		r := relay(t, engine, through{}, through{})
		_, _ = r.server.Write([]byte("last "))
		_ = r.server.Close()
		if e := <-r.end; e.Side != ServerSide || e.Err != nil {
			t.Errorf("the relay ended with %+v", e)
		}
		_ = r.inner.SetDeadline(time.Time{})
		_, err := r.inner.Write([]byte("words"))
		must.Succeed(t, err)
		_ = r.inner.Close()
		if b, err := io.ReadAll(r.client); err != nil || string(b) != "last words" {
			t.Errorf("%q, %v", b, err)
		}
	})
}

func TestACancelledRelayStopsAtOnceEvenDuringAWrite(t *testing.T) {
	onEachEngine(t, func(t *testing.T, engine engine) {
		for name, fill := range map[string]func(r *relayed){
			"idle":                       func(*relayed) {},
			"the client does not read":   func(r *relayed) { full(r.server) },
			"the server does not read":   func(r *relayed) { full(r.client) },
			"neither side reads":         func(r *relayed) { full(r.client); full(r.server) },
			"half a message has arrived": func(r *relayed) { _, _ = r.server.Write([]byte("half")) },
		} {
			t.Run(name, func(t *testing.T) {
				r := relay(t, engine, through{}, whole{})
				fill(r)
				start := time.Now()
				why := errors.New("enough")
				r.cut(why)
				if e := <-r.end; !errors.Is(e.Err, why) {
					t.Errorf("the relay ended with %+v", e)
				}
				if d := time.Since(start); d >= Linger {
					t.Errorf("it took %v", d)
				}
				_ = r.inner.SetDeadline(time.Now().Add(20 * time.Second))
				_ = r.client.Close() // so that the next read returns at least the end of the stream
				if _, err := r.inner.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("the relay has set a deadline after its end: %v", err)
				}
			})
		}
	})
}

// beyondBuffers is more than the system buffers between the far ends of a relay: 4 MB for a sender
// and 6 MB for a receiver, twice, by default (tcp(7), tcp_wmem and tcp_rmem).
const beyondBuffers = 64 << 20

// full writes until no buffer takes more.
func full(c net.Conn) {
	block := bytes.Repeat([]byte("......."), 2000)
	for {
		_ = c.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
		if _, err := c.Write(block); err != nil {
			return
		}
	}
}

func TestAWalkersErrorEndsTheRelayOnItsSide(t *testing.T) {
	onEachEngine(t, func(t *testing.T, engine engine) {
		r := relay(t, engine, bad{}, through{})
		_, _ = r.client.Write([]byte("?"))
		_, _ = io.ReadAll(r.server) // until the relay half-closes it
		_ = r.server.Close()
		if e := <-r.end; e.Side != ClientSide || e.Err == nil || e.Err.Error() != "not a message" {
			t.Errorf("the relay ended with %+v", e)
		}
		r = relay(t, engine, through{}, bad{})
		_, _ = r.server.Write([]byte("?"))
		if e := <-r.end; e.Side != ServerSide || e.Err == nil || e.Err.Error() != "not a message" {
			t.Errorf("the relay ended with %+v", e)
		}
	})
}

// A panic in the relay's own goroutines would end the whole guard.
func TestAWalkersPanicReachesTheCallerWithItsStack(t *testing.T) {
	onEachEngine(t, func(t *testing.T, engine engine) {
		for _, side := range []string{"up", "down"} {
			r := relay(t, engine, bad{panics: side == "up"}, bad{panics: side == "down"})
			if side == "up" {
				_, _ = r.client.Write([]byte("?"))
				_, _ = io.ReadAll(r.server)
				_ = r.server.Close()
			} else {
				_, _ = r.server.Write([]byte("?"))
			}
			var p any
			select {
			case p = <-r.panicked:
			case e := <-r.end:
				t.Fatalf("%s: no panic but %+v", side, e)
			}
			if text := p.(error).Error(); !strings.Contains(text, "a bug in a walker") ||
				!strings.Contains(text, "relay_test.go") {
				t.Errorf("%s: %s", side, text)
			}
		}
	})
}

func TestAWalkerThatWantsMoreThanTheBufferEndsTheRelay(t *testing.T) {
	onEachEngine(t, func(t *testing.T, engine engine) {
		r := relay(t, engine, through{}, whole{})
		_, _ = r.server.Write(bytes.Repeat([]byte("x"), BufferSize))
		if e := <-r.end; e.Side != ServerSide || e.Err == nil {
			t.Errorf("the relay ended with %+v", e)
		}
	})
}

// The server needs longer for its answer than any deadline of the relay.
func TestAClientThatHasSentItsLastByteGetsALateAnswer(t *testing.T) {
	onEachEngine(t, func(t *testing.T, engine engine) {
		if testing.Short() {
			t.Skip("takes longer than Linger")
		}
		t.Parallel()
		r := relay(t, engine, through{}, through{})
		_ = r.client.CloseWrite()
		if _, err := r.server.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("the server's connection is not half closed: %v", err)
		}
		time.Sleep(Linger + time.Second) // the time that the server needs, and not for an event
		_, _ = r.server.Write([]byte("late"))
		_ = r.server.Close()
		b := make([]byte, 4)
		if _, err := io.ReadFull(r.client, b); err != nil || string(b) != "late" {
			t.Errorf("%q, %v", b, err)
		}
		if e := <-r.end; e.Side != ClientSide {
			t.Errorf("the relay ended with %+v", e)
		}
	})
}

// questions are the relay's questions whether its session lives. The test answers each when it
// likes.
type questions chan bool

func (q questions) Ask(ctx context.Context) (bool, error) {
	select {
	case alive := <-q:
		return alive, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

func TestAClientThatDoesNotReadIsClosedOnceItsSessionHasEnded(t *testing.T) {
	onEachEngine(t, func(t *testing.T, engine engine) {
		q := make(questions)
		r := runTo(t, engine, through{}, through{}, Liveness{Check: q.Ask, Stall: 10 * time.Millisecond})
		_ = r.server.SetWriteDeadline(time.Time{})
		var writing sync.WaitGroup
		writing.Go(func() { _, _ = r.server.Write(make([]byte, beyondBuffers)) })
		defer func() { _ = r.server.Close(); writing.Wait() }()
		for range 3 {
			q <- true
		}
		select {
		case e := <-r.end:
			t.Fatalf("a live session was ended: %+v", e)
		default:
		}
		q <- false
		if e := <-r.end; e.Side != ServerSide || !errors.Is(e.Err, ErrStuck) {
			t.Errorf("the relay ended with %+v", e)
		}
	})
}

// The client pauses so long and so often that the relay asks whether its session lives.
func TestASlowClientOfALiveSessionGetsEverything(t *testing.T) {
	onEachEngine(t, func(t *testing.T, engine engine) {
		asked := make(chan struct{}, 3)
		r := runTo(t, engine, through{}, whole{}, Liveness{Stall: 10 * time.Millisecond, Check: func(
			context.Context,
		) (bool, error) {
			select {
			case asked <- struct{}{}:
			default:
			}
			return true, nil
		}})
		sent := bytes.Repeat([]byte("a message."), 2_000_000)
		var writing sync.WaitGroup
		writing.Go(func() { _, _ = r.server.Write(sent); _ = r.server.Close() })
		for range 3 {
			<-asked
		}
		got := make([]byte, len(sent))
		if _, err := io.ReadFull(r.client, got); err != nil || !bytes.Equal(got, sent) {
			t.Errorf("the client did not get everything: %v", err)
		}
		writing.Wait()
	})
}

func TestTheRelayDropsTheRestForAClientThatHasLeftAndDoesNotRead(t *testing.T) {
	onEachEngine(t, func(t *testing.T, engine engine) {
		if testing.Short() {
			t.Skip("takes as long as Linger")
		}
		t.Parallel()
		r := relay(t, engine, through{}, through{})
		full(r.server)
		_ = r.client.CloseWrite()
		if e := <-r.end; e.Side != ClientSide {
			t.Errorf("the relay ended with %+v", e)
		}
	})
}

func TestBytesThatTheHandshakeHasReadComeFirst(t *testing.T) {
	onEachEngine(t, func(t *testing.T, engine engine) {
		inner, client := engine(pair(t))
		outer, server := engine(pair(t))
		early := bytes.Repeat([]byte("early "), BufferSize/3) // more than one buffer
		ended := make(chan End, 1)
		go func() {
			ended <- Start(context.Background(), Leg{inner, early},
				Leg{outer, []byte("ready ")}, through{}, through{}, Liveness{}).Wait()
		}()
		_, _ = client.Write([]byte("late"))
		_ = client.CloseWrite()
		if b, err := io.ReadAll(server); err != nil || string(b) != string(early)+"late" {
			t.Errorf("the server got %d bytes ending in %q, %v", len(b), b[max(0, len(b)-10):], err)
		}
		_, _ = server.Write([]byte("done"))
		_ = server.Close()
		b := make([]byte, len("ready done"))
		if _, err := io.ReadFull(client, b); err != nil || string(b) != "ready done" {
			t.Errorf("the client got %q, %v", b, err)
		}
		<-ended
	})
}
