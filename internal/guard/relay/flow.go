package relay

import (
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/ringfence/ringfence/internal/network/tlsconfig"
)

// crash is a panic, on its way from the goroutine where it happened to the one that serves the
// client.
type crash struct {
	value any
	stack []byte
}

func (c *crash) Error() string { return fmt.Sprintf("%v, in\n%s", c.value, c.stack) }

// Crashed returns what recover has returned as an error, with the stack; nil if there was no panic.
func Crashed(recovered any) error {
	if recovered == nil {
		return nil
	}
	return &crash{recovered, debug.Stack()}
}

// flow is one direction of a relay: it reads from one connection, and its Walker writes to the
// other one.
type flow struct {
	walker   Walker
	out      failing
	from, to Side // which side an error belongs to
	early    []byte
	bytes    buffer
	ended    func(End)     // called once
	steps    atomic.Uint64 // odd while the walker runs

	inLoop // used if both connections are sockets of a loop
}

// begin walks what the handshake has read.
func (f *flow) begin() (end End, over bool) {
	for len(f.early) > 0 && !over {
		n := copy(f.bytes.borrow(), f.early)
		f.early = f.early[n:]
		end, over = f.pass(n)
	}
	return end, over
}

// pass walks n more bytes, which have just been read.
func (f *flow) pass(n int) (end End, over bool) {
	f.steps.Add(1)
	defer f.steps.Add(1)
	f.bytes.held += n
	done, err := f.walker.Walk(f.bytes.memory[:f.bytes.held], &f.out)
	switch {
	case errors.Is(f.out.err, ErrStuck):
		return End{f.from, ErrStuck}, true
	case f.out.err != nil:
		return End{f.to, f.out.err}, true
	case err != nil:
		return End{f.from, err}, true
	}
	f.bytes.used(done)
	if f.bytes.full() {
		return End{f.from, errors.New("relay: a walker holds a full buffer and wants more")}, true
	}
	return End{}, false
}

// endOf says how the relay ends after an error of reading.
func (f *flow) endOf(err error) End {
	if err == io.EOF {
		return End{Side: f.from}
	}
	return End{f.from, err}
}

// contain turns a panic of a Walker into an End.
func (f *flow) contain(end *End, over *bool) {
	if err := Crashed(recover()); err != nil {
		*end, *over = End{f.from, err}, true
	}
}

// pump runs a flow in a goroutine.
func (f *flow) pump(src net.Conn) (end End) {
	var over bool
	defer f.contain(&end, &over)
	if end, over = f.begin(); over {
		return end
	}
	for {
		n, err := src.Read(f.bytes.borrow())
		if n > 0 {
			if end, over = f.pass(n); over {
				return end
			}
		}
		if err != nil {
			return f.endOf(err)
		}
	}
}

// inGoroutines runs two flows, each in its own goroutine. They have names in a goroutine dump.
func inGoroutines(
	client, server net.Conn, upward, downward *flow, toClient *patient,
) (wait func()) {
	upward.out.w = server
	toClient.conn, downward.out.w = client, toClient
	below := tlsconfig.TransportOf(client)
	if below != nil {
		toClient.conn, downward.out.w = below.Conn(), client
		below.Replace(patiently{below.Conn(), toClient})
	}
	var both sync.WaitGroup
	both.Go(func() { relayUp(upward, client) })
	both.Go(func() { relayDown(downward, server) })
	return func() {
		both.Wait()
		if below != nil {
			below.Replace(below.Conn().(patiently).Conn)
		}
	}
}

// patiently is what a client's connection has below TLS. A patient writes with a deadline, and goes
// on when that has passed. TLS cannot go on after that, so the patience is below it.
type patiently struct {
	net.Conn
	patient *patient
}

func (p patiently) Write(b []byte) (int, error) { return p.patient.Write(b) }

// Waits is for a Walker that is about to wait for anything but its write to w. The flow leaves its
// loop before that, so that it delays no other login.
func Waits(w io.Writer) {
	if f, ok := w.(*failing); ok {
		if out, ok := f.w.(interface{ waits() }); ok {
			out.waits()
		}
	}
}

func relayUp(f *flow, client net.Conn)   { f.ended(f.pump(client)) }
func relayDown(f *flow, server net.Conn) { f.ended(f.pump(server)) }

// failing remembers the error of a write, to tell it from the walker's own errors.
type failing struct {
	w   io.Writer
	err error
}

func (f *failing) Write(b []byte) (int, error) {
	n, err := f.w.Write(b)
	if err != nil {
		f.err = err
	}
	return n, err
}
