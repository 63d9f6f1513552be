package page

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

const (
	pace      = time.Second      // the shortest time between two messages of a stream
	heartbeat = 15 * time.Second // the longest
	patience  = 10 * time.Second // how long a reader may take for one message
	again     = 2 * time.Second  // when a browser that has lost its stream connects again
)

// events sends the state as server-sent events: now, after changes, and as a heartbeat. The next
// message is made when the one before is out, so a slow reader misses states, and none is stored
// for it.
func (p *Page) events(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return
	}
	if !p.streams.begin() {
		w.Header().Set("Retry-After", "10")
		http.Error(w, "too many pages are open, or the guard is shutting down",
			http.StatusServiceUnavailable)
		return
	}
	defer p.streams.end()
	p.wake()
	out := http.NewResponseController(w)
	begin := fmt.Sprintf("retry: %d\n", again.Milliseconds())
	for {
		changed := p.board.next()
		_ = out.SetWriteDeadline(time.Now().Add(patience))
		if send(w, begin, p.board.state()) != nil || out.Flush() != nil {
			return
		}
		begin = ""
		if !p.wait(r, time.After(pace), nil) || !p.wait(r, time.After(heartbeat-pace), changed) {
			return
		}
	}
}

// send writes one message.
func send(w http.ResponseWriter, begin string, s State) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%sdata: %s\n\n", begin, text)
	return err
}

// wait waits for either channel. It returns false if the stream has to end.
func (p *Page) wait(r *http.Request, after <-chan time.Time, changed <-chan struct{}) bool {
	select {
	case <-after:
	case <-changed:
	case <-r.Context().Done():
		return false
	case <-p.streams.stop:
		return false
	}
	return true
}
