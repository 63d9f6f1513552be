package webpage

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Limits of streams.
const (
	StreamsMost = 32 // open at once

	Pace      = time.Second      // the shortest time between two messages
	Heartbeat = 15 * time.Second // the longest
	Patience  = 10 * time.Second // how long a reader may take for one message
)

// Streams are the open streams of a page.
type Streams struct {
	stop chan struct{} // closed when they have to end

	mu      sync.Mutex
	count   int
	closed  bool
	running sync.WaitGroup
}

// NewStreams returns no streams.
func NewStreams() *Streams { return &Streams{stop: make(chan struct{})} }

// Begin reports whether one more stream may begin. End has to be called then.
func (s *Streams) Begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.count >= StreamsMost {
		return false
	}
	s.count++
	s.running.Add(1)
	return true
}

// End ends what Begin has begun.
func (s *Streams) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count--
	s.running.Done()
}

// Open returns how many there are.
func (s *Streams) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

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

// Serve answers a request with the state as server-sent events: now, after changes, and as a heartbeat.
// state returns it, as something that is JSON, with a channel that the next change closes. The next
// message is made when the one before is out, so a slow reader misses states, and none is stored for it.
// begun is called first, unless there are too many streams.
func (s *Streams) Serve(
	w http.ResponseWriter, r *http.Request, begun func(), state func() (any, <-chan struct{}),
) {
	Secure(w.Header())
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return
	}
	if !s.Begin() {
		w.Header().Set("Retry-After", "10")
		http.Error(w, "too many pages are open, or the server is shutting down",
			http.StatusServiceUnavailable)
		return
	}
	defer s.End()
	begun()
	out := http.NewResponseController(w)
	for {
		now, changed := state()
		_ = out.SetWriteDeadline(time.Now().Add(Patience))
		if send(w, now) != nil || out.Flush() != nil {
			return
		}
		if !s.wait(r, time.After(Pace), nil) || !s.wait(r, time.After(Heartbeat-Pace), changed) {
			return
		}
	}
}

// send writes one message.
func send(w http.ResponseWriter, state any) error {
	text, err := json.Marshal(state)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "data: %s\n\n", text)
	return err
}

// wait waits for either channel. It returns false if the stream has to end.
func (s *Streams) wait(r *http.Request, after <-chan time.Time, changed <-chan struct{}) bool {
	select {
	case <-after:
	case <-changed:
	case <-r.Context().Done():
		return false
	case <-s.stop:
		return false
	}
	return true
}
