package guard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"time"
)

// Walker follows the messages of one direction of a session. It passes bytes on as they came, and
// re-encodes nothing.
type Walker interface {
	// Walk looks at b, which starts where the last Walk stopped, and writes to w what may pass, in as
	// few calls as it can. It returns how many bytes of b it is done with. The rest comes again with
	// more behind it, so a Walker must not wait for a message that is longer than the relay's buffer
	// (BufferSize). An error ends the session.
	Walk(b []byte, w io.Writer) (done int, err error)
}

// BufferSize is how many bytes a Walker sees at once at most.
const BufferSize = 16 << 10

// Side is one end of a relay.
type Side int

const (
	ClientSide Side = iota + 1
	ServerSide
)

// End says how a relay ended: which side left or failed first, and the error, or nil after an
// orderly end of stream.
type End struct {
	Side Side
	Err  error
}

// Linger is how long a relay waits for the server to finish after the client has left.
const Linger = 5 * time.Second

// Relay passes bytes both ways until one side or ctx ends, and returns when both directions have
// stopped. It reads the client's bytes from from, which may hold bytes that the handshake has read
// already. alive is asked about a client that does not read.
//
// When the client leaves, Relay half-closes the server's connection; the server may finish what it
// was sent for at most Linger. When the server leaves, the client's connection stays open: the
// caller sets a write deadline, says why, and closes it. When ctx ends, both directions stop where
// they are.
func Relay(
	ctx context.Context, client net.Conn, from io.Reader, server net.Conn,
	up, down Walker, alive Liveness,
) End {
	cut := make(chan struct{})
	unhook := context.AfterFunc(ctx, func() {
		defer close(cut)
		_ = client.SetDeadline(Past)
		_ = server.SetDeadline(Past)
	})
	defer func() {
		if !unhook() {
			<-cut // or it might change the deadlines that the caller sets next
		}
	}()
	ends := make(chan End, 2) // in the order in which they came
	toClient := &patient{ctx: ctx, conn: client, alive: alive}
	var both sync.WaitGroup
	both.Go(func() {
		ends <- relayUp(server, from, up)
		toClient.linger()
		closeWrite(server)
		_ = server.SetReadDeadline(time.Now().Add(Linger))
		if ctx.Err() != nil {
			_ = server.SetReadDeadline(Past) // the hook's may have been before ours
		}
	})
	both.Go(func() {
		ends <- relayDown(toClient, server, down)
		_ = client.SetReadDeadline(Past)
		_ = server.SetWriteDeadline(Past) // a writer stuck in a dead server must see it too
	})
	both.Wait()
	first, second := <-ends, <-ends
	var crash *crashed
	if errors.As(first.Err, &crash) || errors.As(second.Err, &crash) {
		panic(crash) // in the goroutine that serves this client, where it ends this one connection
	}
	if ctx.Err() != nil && errors.Is(first.Err, os.ErrDeadlineExceeded) {
		first.Err = context.Cause(ctx)
	}
	return first
}

// relayUp and relayDown have names so that a goroutine dump tells them apart.
func relayUp(server io.Writer, from io.Reader, w Walker) End {
	return pump(server, from, w, ServerSide, ClientSide)
}

func relayDown(client io.Writer, server io.Reader, w Walker) End {
	return pump(client, server, w, ClientSide, ServerSide)
}

// crashed carries a panic of a Walker to the goroutine of Relay's caller.
type crashed struct {
	value any
	stack []byte
}

func (c *crashed) Error() string { return fmt.Sprintf("%v, in a relay:\n%s", c.value, c.stack) }

// pump moves bytes through w until src ends. from and to say which side an error belongs to.
func pump(dst io.Writer, src io.Reader, w Walker, to, from Side) (end End) {
	defer func() {
		if r := recover(); r != nil {
			end = End{from, &crashed{r, debug.Stack()}}
		}
	}()
	buf := make([]byte, BufferSize)
	held := 0
	out := &failing{w: dst}
	for {
		n, err := src.Read(buf[held:])
		held += n
		if n > 0 {
			done, werr := w.Walk(buf[:held], out)
			if errors.Is(out.err, Stuck) {
				return End{from, Stuck}
			}
			if out.err != nil {
				return End{to, out.err}
			}
			if werr != nil {
				return End{from, werr}
			}
			held = copy(buf, buf[done:held])
			if held == len(buf) {
				return End{from, errors.New("guard: a walker holds a full buffer and wants more")}
			}
		}
		if err == io.EOF {
			return End{Side: from}
		}
		if err != nil {
			return End{from, err}
		}
	}
}

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

func closeWrite(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
		return
	}
	_ = c.Close()
}

// CloseGently closes a connection so that what was written arrives. It half-closes the connection
// and discards what the client still sends for at most a second: closing with unread bytes would
// reset the connection, and the client might lose what was written.
func CloseGently(c net.Conn) { closeWithin(c, time.Second) }

func closeWithin(c net.Conn, d time.Duration) {
	closeWrite(c)
	for range 2 { // if this process was paused during the first half, it read nothing
		_ = c.SetReadDeadline(time.Now().Add(d / 2))
		_, _ = io.Copy(io.Discard, io.LimitReader(c, 1<<19))
	}
	_ = c.Close()
}
