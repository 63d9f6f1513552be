package relay

import (
	"context"
	"errors"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/test/must"
)

// stuck is a walker that holds its loop up until it is released.
type stuck struct{ held, release chan struct{} }

func (s stuck) Walk(b []byte, w io.Writer) (int, error) {
	close(s.held)
	<-s.release
	return w.Write(b)
}

func TestALoopThatIsHeldUpDoesNotRespond(t *testing.T) {
	loops, err := StartLoops(2)
	must.Succeed(t, err)
	defer loops.Close()
	for range 3 {
		must.Succeed(t, loops.Respond(t.Context()))
	}
	near, client := pair(t)
	far, _ := pair(t)
	inner, outer := loops.Adopt(near, far)
	s := stuck{make(chan struct{}), make(chan struct{})}
	ctx, cut := context.WithCancel(t.Context())
	r := Start(ctx, Leg{Conn: inner}, Leg{Conn: outer}, s, through{}, Liveness{})
	for inner.(*socket).in.Load().state.Load() != idle { // only its first run is outside of the loop
		runtime.Gosched()
	}
	_, _ = client.Write([]byte("x"))
	<-s.held
	bounded, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	if err := loops.Respond(bounded); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("held up: %v", err)
	}
	cancel()
	close(s.release)
	if err := loops.Respond(t.Context()); err != nil {
		t.Errorf("released: %v", err)
	}
	cut()
	r.Wait()
	_ = errors.Join(inner.Close(), outer.Close())
}

// half holds back what it has seen until it has seen 8 bytes.
type half struct{}

func (half) Walk(b []byte, w io.Writer) (int, error) {
	if len(b) < 8 {
		return 0, nil
	}
	return w.Write(b)
}

func TestABufferIsHeldOnlyWhileThereAreBytes(t *testing.T) {
	r := relay(t, onLoop(t, inGoroutine), half{}, through{})
	// after looks at the flow once it has walked so often and waits for more.
	after := func(walks uint64) buffer {
		for {
			f := r.inner.(*socket).in.Load()
			if f != nil && f.steps.Load() == 2*walks && f.state.CompareAndSwap(idle, running) {
				defer f.state.Store(idle)
				return f.bytes
			}
			runtime.Gosched()
		}
	}
	if after(0).memory != nil {
		t.Error("a flow that waits holds a buffer")
	}
	_, _ = r.client.Write([]byte("half"))
	if held := after(1).held; held != 4 {
		t.Errorf("it holds %d bytes", held)
	}
	_, _ = r.client.Write([]byte("half"))
	whole := make([]byte, 8)
	if _, err := io.ReadFull(r.server, whole); err != nil || string(whole) != "halfhalf" {
		t.Errorf("a flow that waits has lost its bytes: %q, %v", whole, err)
	}
	if after(2).memory != nil {
		t.Error("a flow that waits again holds a buffer")
	}
}

func TestAClientIsNotWatchedWhenItsServerCannotBe(t *testing.T) {
	loops, err := StartLoops(1)
	must.Succeed(t, err)
	defer loops.Close()
	client, _ := inTLS(t)(pair(t))
	server, _ := pair(t)
	_ = server.Close() // or there may be too many open files
	if inner, outer := loops.Adopt(client, server); inner != client || outer != server {
		t.Errorf("got a %T and a %T", inner, outer)
	}
}
