package agent

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/ringfence/ringfence/internal/program/webpage"
)

// stream is an answer of events: lines of JSON, or server-sent events for who accepts those.
type stream struct {
	w   http.ResponseWriter
	out *http.ResponseController
	sse bool
}

// begin begins the answer. From now on it is read as slowly as its events come.
func begin(w http.ResponseWriter, r *http.Request) *stream {
	s := &stream{w: w, out: http.NewResponseController(w), sse: strings.Contains(r.Header.Get("Accept"), "text/event-stream")}
	kind := "application/x-ndjson"
	if s.sse {
		kind = "text/event-stream"
	}
	webpage.Secure(w.Header())
	w.Header().Set("Content-Type", kind)
	_ = s.out.SetReadDeadline(time.Time{}) // that of the request; at its end the server would give the client up
	_ = s.out.SetWriteDeadline(time.Now().Add(webpage.Patience))
	_ = s.out.Flush()
	return s
}

// send sends an event. Its error says that the client has not taken it.
func (s *stream) send(name string, event any) error {
	text, err := json.Marshal(event)
	if err != nil {
		return err
	}
	_ = s.out.SetWriteDeadline(time.Now().Add(webpage.Patience))
	if s.sse {
		_, err = fmt.Fprintf(s.w, "event: %s\ndata: %s\n\n", name, text)
	} else {
		_, err = fmt.Fprintf(s.w, "%s\n", text)
	}
	if err != nil {
		return err
	}
	return s.out.Flush()
}
