package local

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/lab/system"
)

// patience bounds the wait for something that has to happen.
const patience = 20 * time.Second

// far is the far end of a link.
type far struct {
	t        *testing.T
	listener net.Listener
	link     *Link
}

func newFar(t *testing.T) *far {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	l, err := NewLink(listener.Addr().String(), 1)
	must.Succeed(t, err)
	t.Cleanup(func() {
		listener.Close()
		l.Close()
	})
	return &far{t, listener, l}
}

func (f *far) dial() net.Conn {
	f.t.Helper()
	c, err := net.DialTimeout("tcp", f.link.Addr(), patience)
	must.Succeed(f.t, err)
	f.t.Cleanup(func() { c.Close() })
	return c
}

// accept returns nil if nothing arrives in time.
func (f *far) accept(limit time.Duration) net.Conn {
	f.t.Helper()
	_ = f.listener.(*net.TCPListener).SetDeadline(time.Now().Add(limit))
	c, err := f.listener.Accept()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	must.Succeed(f.t, err)
	f.t.Cleanup(func() { c.Close() })
	return c
}

// pair returns both ends of a connection over the link.
func (f *far) pair() (client, server net.Conn) {
	f.t.Helper()
	client = f.dial()
	if server = f.accept(patience); server == nil {
		f.t.Fatal("the connection did not arrive")
	}
	return client, server
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	_, err := io.WriteString(c, text)
	must.Succeed(t, err)
}

// arrives wants to read exactly this text.
func arrives(t *testing.T, c net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	_ = c.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("want %q, got %q, %v", want, got, err)
	}
}

func hasEnded(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(patience))
	if n, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("want an end, got %d bytes, %v", n, err)
	}
}

// quiet wants neither bytes nor an end to arrive for a while.
func quiet(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if n, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("want silence, got %d bytes, %v", n, err)
	}
}

func TestALinkCarriesBothWaysAndEnds(t *testing.T) {
	client, server := newFar(t).pair()
	send(t, client, "question")
	arrives(t, server, "question")
	send(t, server, "answer")
	arrives(t, client, "answer")
	client.Close()
	hasEnded(t, server)
}

func TestHeldBytesArriveLateAndInOrder(t *testing.T) {
	f := newFar(t)
	client, server := f.pair()
	f.link.Shape(system.Shape{HoldUp: true, HoldDown: true})
	send(t, client, "one ")
	quiet(t, server)
	send(t, client, "two ")
	send(t, server, "down")
	quiet(t, client)
	f.link.Shape(system.Shape{})
	arrives(t, server, "one two ")
	arrives(t, client, "down")
	send(t, client, "three")
	arrives(t, server, "three")
}

func TestOneDirectionIsHeldAlone(t *testing.T) {
	for _, held := range []struct {
		name  string
		shape system.Shape
	}{{"up", system.Shape{HoldUp: true}}, {"down", system.Shape{HoldDown: true}}} {
		t.Run(held.name, func(t *testing.T) {
			f := newFar(t)
			client, server := f.pair()
			blocked, open := client, server // the senders
			if held.shape.HoldDown {
				blocked, open = server, client
			}
			f.link.Shape(held.shape)
			send(t, blocked, "held")
			send(t, open, "free")
			arrives(t, blocked, "free")
			quiet(t, open)
			f.link.Shape(system.Shape{})
			arrives(t, open, "held")
		})
	}
}

func TestAHeldEndArrivesAfterTheBytes(t *testing.T) {
	f := newFar(t)
	client, server := f.pair()
	f.link.Shape(system.Shape{HoldUp: true})
	send(t, client, "the last write")
	client.Close()
	quiet(t, server)
	f.link.Shape(system.Shape{})
	arrives(t, server, "the last write")
	hasEnded(t, server)
}

func TestOneConnectionIsHeldAlone(t *testing.T) {
	f := newFar(t)
	client, server := f.pair()
	other, otherServer := f.pair()
	port := server.RemoteAddr().(*net.TCPAddr).Port
	f.link.Shape(system.Shape{HoldUp: true, Port: port})
	send(t, client, "held")
	send(t, other, "free")
	arrives(t, otherServer, "free")
	quiet(t, server)
	f.link.Shape(system.Shape{})
	arrives(t, server, "held")
}

func TestALostEndNeverArrives(t *testing.T) {
	f := newFar(t)
	client, server := f.pair()
	f.link.Shape(system.Shape{LoseEnds: true})
	send(t, client, "the last write")
	client.Close()
	arrives(t, server, "the last write")
	quiet(t, server)
	f.link.Shape(system.Shape{})
	quiet(t, server)
	send(t, server, "an answer")
	quiet(t, server)
	client, server = f.pair()
	client.Close()
	hasEnded(t, server)
}

func TestAFullLinkBlocksTheSender(t *testing.T) {
	f := newFar(t)
	client, server := f.pair()
	f.link.Shape(system.Shape{HoldUp: true})
	all := bytes.Repeat([]byte("0123456789abcdef"), 4<<20)
	sent := make(chan error, 1)
	go func() {
		_, err := client.Write(all)
		sent <- err
	}()
	select {
	case err := <-sent:
		t.Fatalf("64 MiB fit into a held link: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	f.link.Shape(system.Shape{})
	got := make([]byte, len(all))
	_ = server.SetReadDeadline(time.Now().Add(4 * patience))
	if _, err := io.ReadFull(server, got); err != nil || !bytes.Equal(got, all) {
		t.Fatalf("not what was sent: %v", err)
	}
	must.Succeed(t, <-sent)
}

func TestARefusedConnectionIsMadeLater(t *testing.T) {
	f := newFar(t)
	f.link.Shape(system.Shape{HoldUp: true, HoldDown: true, Refuse: true})
	client := f.dial()
	send(t, client, "hello")
	if f.accept(100*time.Millisecond) != nil {
		t.Fatal("a connection was made over a cut link")
	}
	f.link.Shape(system.Shape{})
	server := f.accept(patience)
	if server == nil {
		t.Fatal("the connection did not arrive after the link was healed")
	}
	arrives(t, server, "hello")
}

func TestARefusedConnectionIsNotMadeIfTheClientHasLeft(t *testing.T) {
	f := newFar(t)
	f.link.Shape(system.Shape{HoldUp: true, HoldDown: true, Refuse: true})
	client := f.dial()
	send(t, client, "hello")
	must.Succeed(t, client.(*net.TCPConn).CloseWrite())
	hasEnded(t, client) // the link has seen that the client left
	f.link.Shape(system.Shape{})
	if f.accept(200*time.Millisecond) != nil {
		t.Fatal("a connection arrived although the client had left before")
	}
}

func TestADelayActsEachWayAndKeepsTheOrder(t *testing.T) {
	f := newFar(t)
	client, server := f.pair()
	const delay = 150 * time.Millisecond
	f.link.Shape(system.Shape{Delay: delay})
	start := time.Now()
	send(t, client, "a")
	send(t, client, "b")
	arrives(t, server, "ab")
	send(t, server, "c")
	arrives(t, client, "c")
	if took := time.Since(start); took < 2*delay || took > 2*delay+patience {
		t.Errorf("the round trip took %v", took)
	}
}

func TestALostPacketArrivesLate(t *testing.T) {
	f := newFar(t)
	client, server := f.pair()
	f.link.Shape(system.Shape{Loss: 0.99})
	start := time.Now()
	send(t, client, "lost at first")
	arrives(t, server, "lost at first")
	if took := time.Since(start); took < firstRetry {
		t.Errorf("a lost packet took %v", took)
	}
}

func TestAClosedPortAtTheFarEndIsARefusal(t *testing.T) {
	f := newFar(t)
	f.listener.Close()
	c, err := net.DialTimeout("tcp", f.link.Addr(), 5*time.Second)
	if err != nil {
		return // the reset was faster than the answer
	}
	defer c.Close()
	hasEnded(t, c)
}

func TestCloseEndsHeldConnections(t *testing.T) {
	f := newFar(t)
	client, server := f.pair()
	f.link.Shape(system.Shape{HoldUp: true, Refuse: true})
	waiting := f.dial()
	send(t, client, "held")
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		f.link.Close()
	}()
	select {
	case <-closed: // every goroutine of the link has ended
	case <-time.After(patience):
		t.Fatal("Close did not return")
	}
	hasEnded(t, client)
	hasEnded(t, server)
	hasEnded(t, waiting)
}

func TestABrokenLinkEndsConnectionsAndRefusesOthers(t *testing.T) {
	f := newFar(t)
	client, _ := f.pair()
	f.link.Shape(system.Shape{Break: true})
	hasEnded(t, client)
	if c, err := net.DialTimeout("tcp", f.link.Addr(), patience); err == nil {
		hasEnded(t, c)
		c.Close()
	}
	f.link.Shape(system.Shape{})
	client, server := f.pair()
	send(t, client, "question")
	arrives(t, server, "question")
}
