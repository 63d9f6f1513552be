package guard

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/guard/relay"
	"github.com/ringfence/ringfence/internal/test/must"
)

// late is a connection of a process that is paused once: right after it has set its first deadline,
// until that deadline has passed.
type late struct {
	*net.TCPConn
	once sync.Once
	read int
}

func (l *late) Read(p []byte) (n int, err error) {
	n, err = l.TCPConn.Read(p)
	l.read += n
	return n, err
}

func (l *late) SetReadDeadline(at time.Time) error {
	l.once.Do(func() { at = relay.Past })
	return l.TCPConn.SetReadDeadline(at)
}

func (l *late) SetWriteDeadline(at time.Time) error {
	l.once.Do(func() { at = relay.Past })
	return l.TCPConn.SetWriteDeadline(at)
}

// connected returns the two ends of a connection.
func connected(t *testing.T) (near *net.TCPConn, far net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	defer l.Close()
	far, err = net.Dial("tcp", l.Addr().String())
	must.Succeed(t, err)
	t.Cleanup(func() { _ = far.Close() })
	accepted, err := l.Accept()
	must.Succeed(t, err)
	return accepted.(*net.TCPConn), far
}

func TestAProcessThatWasPausedReadsWhatHasArrivedBeforeItCloses(t *testing.T) {
	near, far := connected(t)
	_, _ = far.Write([]byte("unread"))
	if _, err := near.Read(make([]byte, 1)); err != nil { // the rest has arrived as well
		t.Fatal(err)
	}
	paused := &late{TCPConn: near}
	CloseGently(paused)
	if paused.read != len("nread") {
		t.Errorf("closed with unread bytes: only %d were read", paused.read)
	}
}

func TestAProcessThatWasPausedTellsTheClientWhyItCloses(t *testing.T) {
	near, far := connected(t)
	paused := &late{TCPConn: near}
	_ = far.(*net.TCPConn).CloseWrite()
	Dismiss(paused, []byte("why"))
	if b, err := io.ReadAll(far); string(b) != "why" || err != nil {
		t.Errorf("got %q, %v", b, err)
	}
}
