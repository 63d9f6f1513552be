package campaign

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/ringfence/ringfence/fence/documents"
)

var (
	// ErrClosed is returned by calls on a closed Coordinator.
	ErrClosed = errors.New("the coordinator is closed")
	// ErrUnreachable is returned when the coordinator has not answered in time. It is the documents'
	// error, too: a call on them that returns it has changed nothing.
	ErrUnreachable = documents.ErrUnreachable
)

// Settings of a Frame.
type Settings struct {
	Kind    string        // of coordinator, for messages, such as "etcd"
	Where   string        // its servers, for messages
	Timeout time.Duration // of sessions; 10 s when zero
	Logger  *slog.Logger  // nothing is logged when nil

	Refused func(error) bool       // retrying cannot fix it: a call ends, and so does a campaign
	Ends    func(error) bool       // a call ends with it, and a campaign starts again; may be nil
	Failure func(last error) error // explains the last failure of a call; may be nil
	Last    func() error           // the last failure to connect, or nil; may be nil
}

// Frame is the life of a Coordinator, from its settings to its end. Its calls begin and end in it.
type Frame struct {
	Settings
	Log *slog.Logger

	ctx context.Context // ends with ErrClosed
	end context.CancelCauseFunc

	mu     sync.Mutex
	closed bool
	turns  time.Time      // when the last retry had its turn
	work   sync.WaitGroup // calls, and what Go has started
}

// NewFrame begins the life of a Coordinator. It connects to nothing.
func NewFrame(s Settings) *Frame {
	f := &Frame{Settings: s, Log: s.Logger}
	if f.Timeout <= 0 {
		f.Timeout = 10 * time.Second
	}
	if f.Log == nil {
		f.Log = slog.New(slog.DiscardHandler)
	}
	f.Log = f.Log.With(strings.ToLower(s.Kind), s.Where)
	f.ctx, f.end = context.WithCancelCause(context.Background())
	return f
}

// RequestTimeout is how long a call waits for an answer: a session timeout, 2 s at least.
func (f *Frame) RequestTimeout() time.Duration { return max(f.Timeout, 2*time.Second) }

// Context ends with the Frame, with ErrClosed.
func (f *Frame) Context() context.Context { return f.ctx }

// Begin begins a call that Wait waits for. Its context ends with ctx, and with the Frame. Call done
// when the call has ended.
func (f *Frame) Begin(ctx context.Context) (_ context.Context, done func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, nil, ErrClosed
	}
	f.work.Add(1)
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(f.ctx, func() { cancel(ErrClosed) })
	return ctx, func() { unhook(); cancel(nil); f.work.Done() }, nil
}

// Go starts a goroutine that Wait waits for. Call it only between Begin and done, or from such a
// goroutine.
func (f *Frame) Go(work func()) { f.work.Go(work) }

// TryGo is Go for everybody else. It starts nothing after End, and returns false.
func (f *Frame) TryGo(work func()) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.work.Go(work)
	}
	return !f.closed
}

// End ends the calls under way with ErrClosed; later ones fail.
func (f *Frame) End() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.end(ErrClosed)
}

// Wait waits for all calls and goroutines, after End.
func (f *Frame) Wait() { f.work.Wait() }
