package agent

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/ringfence/ringfence/cmd/internal/webpage"
)

// stream is an answer of events: lines of JSON, or server-sent events for who accepts those.
type stream struct {
	w   http.ResponseWriter
	sse bool
}

// begin begins the answer. From now on it is read as slowly as its events come.
func begin(w http.ResponseWriter, r *http.Request) *stream {
	s := &stream{w, strings.Contains(r.Header.Get("Accept"), "text/event-stream")}
	kind := "application/x-ndjson"
	if s.sse {
		kind = "text/event-stream"
	}
	webpage.Secure(w.Header())
	w.Header().Set("Content-Type", kind)
	// that of the request; at its end the server would give the client up
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	_ = webpage.Push(w, "") // so that the client knows that it has the stream
	return s
}

// send sends an event. Its error says that the client has not taken it in this time.
func (s *stream) send(name string, event any, patience time.Duration) error {
	text, err := json.Marshal(event)
	if err != nil {
		return err
	}
	if s.sse {
		return webpage.PushWithin(s.w, patience, fmt.Sprintf("event: %s\ndata: %s\n\n", name, text))
	}
	return webpage.PushWithin(s.w, patience, string(text)+"\n")
}
