package jobserver

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/ringfence/ringfence/cmd/internal/webpage"
	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/jobs/job"
)

// groupEvents streams the state of a group.
func (s *Server) groupEvents(streams *webpage.Streams, all *boards) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		shown, release, err := all.open(r.PathValue("group"))
		if err != nil {
			s.failed(w, r, err)
			return
		}
		defer release()
		streams.Serve(w, r, func() {}, shown.state)
	}
}

// jobEvents streams a job's status until its end, until the client leaves, or until the server
// stops. A comment tells both sides now and then that the other one is there.
func (s *Server) jobEvents(serving context.Context) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer context.AfterFunc(serving, cancel)()
		q, err := jobs.New(s.Coordinator, r.PathValue("group"))
		if err != nil {
			cancel()
			s.failed(w, r, err)
			return
		}
		statuses, ended := make(chan job.Status), make(chan error, 1)
		go func() {
			ended <- q.Watch(ctx, job.ID(r.PathValue("id")), func(status job.Status) error {
				select {
				case statuses <- status:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
			close(ended)
		}()
		begun, err := sendStatuses(w, statuses, ended)
		cancel()
		for range ended { // until the watch has ended
		}
		if !begun {
			s.failed(w, r, err)
		}
	}
}

// sendStatuses sends each status, until one is the last, or until the watch or the client has
// ended.
func sendStatuses(
	w http.ResponseWriter, statuses <-chan job.Status, ended <-chan error,
) (begun bool, err error) {
	for {
		select {
		case status := <-statuses:
			if !begun {
				begun = true
				w.Header().Set("Content-Type", "text/event-stream")
				w.Header().Set("Cache-Control", "no-store")
				w.Header().Set("X-Content-Type-Options", "nosniff")
			}
			text, err := json.Marshal(status)
			if err == nil {
				err = webpage.Push(w, "data: "+string(text)+"\n\n")
			}
			if err != nil || status.State.Finished() {
				return begun, err
			}
		case <-time.After(webpage.Heartbeat):
			if begun && webpage.Push(w, ":\n\n") != nil {
				return begun, nil
			}
		case err := <-ended:
			return begun, err
		}
	}
}
