package etcd

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"
)

// The time to live is longer than the test waits, so only its context ends the call.
func TestOpeningEndsWithItsContext(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") // it accepts, and is silent
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	for _, user := range []string{"", "app:secret@"} {
		t.Run(user, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			opened := make(chan error, 1)
			go func() {
				_, err := Open(ctx, "etcd://"+user+l.Addr().String(), Options{SessionTimeout: 10 * time.Minute})
				opened <- err
			}()
			select {
			case err := <-opened:
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v", err)
				}
			case <-time.After(time.Minute):
				t.Error("it still opens")
			}
		})
	}
}
