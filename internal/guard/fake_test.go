package guard

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringfence/ringfence/internal/test/must"
)

// fake is a protocol of single letters: 'L' takes a login slot, 'S' waits for the server until 's',
// 'A' admits the session, 'p' panics, 'e' fails, 'o' opens a transaction, 'c' closes it. It echoes
// every letter.
type fake struct {
	ready  error
	refuse func(net.Conn)
}

func (f *fake) Name() string { return "fake" }

func (f *fake) Serve(ctx context.Context, client *Client) error {
	client.Seat.Waiting()
	letters := make(chan byte)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer client.Close()
	gone, stop := context.WithCancel(ctx)
	defer stop()
	reading.Go(func() {
		defer close(letters)
		b := make([]byte, 1)
		for {
			if _, err := client.Read(b); err != nil {
				return
			}
			select {
			case letters <- b[0]:
			case <-gone.Done():
				return
			}
		}
	})
	open := false
	for {
		wait := client.Draining.Done()
		if open {
			wait = nil
		}
		select {
		case <-ctx.Done():
			_, _ = client.Write([]byte("cut: " + context.Cause(ctx).Error()))
			if errors.Is(context.Cause(ctx), Evicted) {
				return Evicted
			}
			return nil
		case <-wait:
			_, _ = client.Write([]byte("drained"))
			return nil
		case letter, more := <-letters:
			switch {
			case !more:
				return nil
			case letter == 'p':
				panic("a bug")
			case letter == 'e':
				return errors.New("a failure")
			case letter == 'o', letter == 'c':
				open = letter == 'o'
			case strings.ContainsRune("LSsA", rune(letter)):
				if err := f.move(ctx, client.Seat, letter); err != nil {
					_, _ = client.Write([]byte("no: " + err.Error()))
					return err
				}
			}
			_, _ = client.Write([]byte{letter})
		}
	}
}

func (f *fake) move(ctx context.Context, seat *Seat, letter byte) (err error) {
	seat.Working()
	switch letter {
	case 'L':
		err = seat.Login(ctx)
	case 'A':
		ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
		err = seat.Admit(ctx)
	case 'S':
		return nil
	}
	seat.Waiting()
	return err
}

func (f *fake) Refuse(client *Client, why string) {
	if f.refuse != nil {
		f.refuse(client)
	}
	_, _ = client.Write([]byte(why))
}

func (f *fake) Ready(context.Context) error { return f.ready }
func (f *fake) Close()                      {}

// served is a running server of the fake protocol.
type served struct {
	t       *testing.T
	addr    string
	metrics *prometheus.Registry
	log     *buffer
	stop    context.CancelFunc
	done    chan error
}

// buffer is a log that tests read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}
func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func serve(t *testing.T, p Protocol, change func(*Server)) *served {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	s := &served{t: t, addr: l.Addr().String(), log: &buffer{}, metrics: prometheus.NewRegistry(),
		done: make(chan error, 1)}
	srv := &Server{Protocol: p, Listener: l, Log: slog.New(slog.NewTextHandler(s.log, nil)),
		Metrics: NewMetrics(s.metrics)}
	if change != nil {
		change(srv)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	go func() { s.done <- srv.Serve(ctx); close(s.done) }()
	t.Cleanup(func() { cancel(); <-s.done })
	return s
}

// value returns a counter, a gauge, or the number of observations of a histogram. labels are the
// values in the order of the label names.
func value(t *testing.T, r *prometheus.Registry, name string, labels ...string) float64 {
	t.Helper()
	families, err := r.Gather()
	must.Succeed(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var have []string
			for _, l := range m.GetLabel() {
				if l.GetValue() != "" { // as Prometheus has it
					have = append(have, l.GetValue())
				}
			}
			if f.GetName() == name && slices.Equal(have, labels) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue() +
					float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return 0
}

func (s *served) dial() net.Conn {
	s.t.Helper()
	c, err := net.Dial("tcp", s.addr)
	must.Succeed(s.t, err)
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// says sends letters and fails the test unless the answer is want.
func (s *served) says(c net.Conn, letter, want string) {
	s.t.Helper()
	_, _ = c.Write([]byte(letter))
	b := make([]byte, len(want))
	if _, err := io.ReadFull(c, b); err != nil || string(b) != want {
		s.t.Fatalf("the answer to %q is %q, %v; want %q", letter, b, err, want)
	}
}

// ends fails the test unless the rest of the stream is want.
func (s *served) ends(c net.Conn, want string) {
	s.t.Helper()
	if b, err := io.ReadAll(c); err != nil || string(b) != want {
		s.t.Errorf("the stream ends with %q, %v; want %q", b, err, want)
	}
}
