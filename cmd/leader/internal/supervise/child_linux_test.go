package supervise

import (
	"fmt"
	"io"
	"testing"
	"time"
)

// lateReader stalls at the first bytes, as on a busy machine.
type lateReader struct{ bytes int }

func (r *lateReader) Write(b []byte) (int, error) {
	if r.bytes == 0 {
		time.Sleep(1500 * time.Millisecond)
	}
	r.bytes += len(b)
	return len(b), nil
}

func TestOutputThatIsReadLateIsNotLost(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 1.5 s")
	}
	t.Parallel()
	const bytes = 40_000 // more than is read at a time, and less than a pipe holds
	said := &lateReader{}
	c := &Child{}
	script := fmt.Sprintf("head -c %d /dev/zero >&2", bytes)
	if err := c.Start([]string{"/bin/sh", "-c", script}, nil, nil, io.Discard, said); err != nil {
		t.Fatal(err)
	}
	select {
	case <-c.ended:
	case <-time.After(30 * time.Second):
		t.Fatal("it did not end")
	}
	if said.bytes != bytes {
		t.Errorf("got %d bytes of %d", said.bytes, bytes)
	}
}
