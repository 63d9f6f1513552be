package webpage

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/ringfence/ringfence/internal/network/clienthost"
)

// Limits of streams.
const (
	MaxStreams = 32 // open at once

	Pace      = time.Second      // the shortest time between two messages
	Heartbeat = 15 * time.Second // the longest
	Patience  = 10 * time.Second // how long a reader may take for one message
)

// Streams are the open streams of a page.
type Streams struct {
	stop chan struct{} // closed when they have to end

	places slots

	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
}

// NewStreams returns no streams.
func NewStreams() *Streams {
	return &Streams{stop: make(chan struct{}), places: slots{max: MaxStreams}}
}

// Begin takes a place for a stream of a client. end is called if another client gets the place.
// Call ended at the end, unless there is no place.
func (s *Streams) Begin(client string, end func()) (ended func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, false
	}
	taken := s.places.acquire(client, end)
	if taken == nil {
		return nil, false
	}
	s.running.Add(1)
	return func() {
		s.places.release(taken)
		s.running.Done()
	}, true
}

// Open returns how many there are.
func (s *Streams) Open() int { return s.places.taken() }

// Close ends all streams and returns when they have ended.
func (s *Streams) Close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.stop)
	}
	s.mu.Unlock()
	s.running.Wait()
}

// Serve answers a request with the state as server-sent events: now, after changes, and as a
// heartbeat. state returns it, as something that is JSON, with a channel that the next change
// closes. The next message is made when the one before is out, so a slow reader misses states, and
// none is stored for it. begun is called first, unless there are too many streams. A client with
// many gives one up for a client with fewer.
func (s *Streams) Serve(
	w http.ResponseWriter, r *http.Request, begun func(), state func() (any, <-chan struct{}),
) {
	Secure(w.Header())
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return
	}
	ctx, end := context.WithCancel(r.Context())
	defer end()
	ended, ok := s.Begin(clienthost.Of(r.RemoteAddr), end)
	if !ok {
		w.Header().Set("Retry-After", "10")
		http.Error(w, "too many pages are open, or the server is shutting down",
			http.StatusServiceUnavailable)
		return
	}
	defer ended()
	begun()
	for {
		now, changed := state()
		if send(w, now) != nil {
			return
		}
		if !s.wait(ctx, time.After(Pace), nil) || !s.wait(ctx, time.After(Heartbeat-Pace), changed) {
			return
		}
	}
}

// send sends one message.
func send(w http.ResponseWriter, state any) error {
	text, err := json.Marshal(state)
	if err != nil {
		return err
	}
	return Push(w, "data: "+string(text)+"\n\n")
}

// Push sends a part of an answer at once. The reader may take as long for it as Patience.
func Push(w http.ResponseWriter, text string) error { return PushWithin(w, Patience, text) }

// PushWithin is Push with a patience of its own.
func PushWithin(w http.ResponseWriter, patience time.Duration, text string) error {
	out := http.NewResponseController(w)
	_ = out.SetWriteDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(w, text); err != nil {
		return err
	}
	return out.Flush()
}

// wait waits for either channel. It returns false if the stream has to end.
func (s *Streams) wait(
	ctx context.Context, after <-chan time.Time, changed <-chan struct{},
) bool {
	select {
	case <-after:
	case <-changed:
	case <-ctx.Done():
		return false
	case <-s.stop:
		return false
	}
	return true
}
