package relay

import (
	"context"
	"errors"
	"io"
	"runtime"
	"testing"
	"time"
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
	if err != nil {
		t.Fatal(err)
	}
	defer loops.Close()
	for range 3 {
		if err := loops.Respond(t.Context()); err != nil {
			t.Fatal(err)
		}
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

func TestAClientIsNotWatchedWhenItsServerCannotBe(t *testing.T) {
	loops, err := StartLoops(1)
	if err != nil {
		t.Fatal(err)
	}
	defer loops.Close()
	client, _ := inTLS(t)(pair(t))
	server, _ := pair(t)
	_ = server.Close() // or there may be too many open files
	if inner, outer := loops.Adopt(client, server); inner != client || outer != server {
		t.Errorf("got a %T and a %T", inner, outer)
	}
}
