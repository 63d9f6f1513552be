package jobserver

import (
	"context"
	"crypto/subtle"
	_ "embed"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/ringfence/ringfence/documents"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/jobs"
)

//go:embed openapi.yaml
var openAPI []byte

// Server serves the API.
type Server struct {
	Coordinator documents.Coordinator
	Token       string        // a client has to send it: Authorization: Bearer …; "" asks for none
	Patience    time.Duration // how long a call waits for the coordinator
	Log         *slog.Logger
}

const bodyMost = 2 * jobs.PayloadMost // bytes of a request

// Handler returns the API. Its event streams end with ctx.
func (s *Server) Handler(ctx context.Context) http.Handler {
	mux := http.NewServeMux()
	const all, one = "/v1/groups/{group}/jobs", "/v1/groups/{group}/jobs/{id}"
	mux.HandleFunc("POST "+all, s.with(s.submit))
	mux.HandleFunc("GET "+all, s.with(s.list))
	mux.HandleFunc("GET "+one, s.with(s.show))
	mux.HandleFunc("GET "+one+"/events", s.events(ctx))
	mux.HandleFunc("POST "+one+"/cancel", s.with(step((*jobs.Queue).Cancel)))
	mux.HandleFunc("POST "+one+"/retry", s.with(step((*jobs.Queue).Retry)))
	mux.HandleFunc("GET /v1/groups/{group}/workers", s.with(s.workers))
	mux.HandleFunc("GET /openapi.yaml", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/yaml")
		_, _ = w.Write(openAPI)
	})
	return s.guarded(mux)
}

// guarded lets only clients with the token through, and only JSON: a page in a browser cannot send
// that to another origin unasked.
func (s *Server) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if s.Token != "" && subtle.ConstantTimeCompare([]byte(got), []byte(s.Token)) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			fail(w, http.StatusUnauthorized, errors.New("the token is missing or wrong: send Authorization: Bearer …"))
			return
		}
		kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if r.Method == http.MethodPost && kind != "application/json" {
			fail(w, http.StatusUnsupportedMediaType, errors.New("send Content-Type: application/json"))
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, bodyMost)
		next.ServeHTTP(w, r)
	})
}

// call is one endpoint. It returns the answer, with the code for a good one.
type call func(ctx context.Context, q *jobs.Queue, r *http.Request) (code int, answer any, err error)

// with gives a call the group's jobs, a limited time, and its answer a form.
func (s *Server) with(do call) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), s.Patience)
		defer cancel()
		q, err := jobs.New(s.Coordinator, r.PathValue("group"))
		var code int
		var answer any
		if err == nil {
			code, answer, err = do(ctx, q, r)
		}
		if err != nil {
			s.failed(w, r, err)
			return
		}
		send(w, code, answer)
	}
}

func (s *Server) submit(
	ctx context.Context, q *jobs.Queue, r *http.Request,
) (int, any, error) {
	var spec jobs.Spec
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&spec); err != nil {
		return 0, nil, badRequest{err}
	}
	if _, err := d.Token(); err != io.EOF {
		return 0, nil, badRequest{errors.New("there is something after the JSON object")}
	}
	id, err := q.Submit(ctx, spec)
	return http.StatusCreated, map[string]jobs.ID{"id": id}, err
}

func (s *Server) list(ctx context.Context, q *jobs.Queue, _ *http.Request) (int, any, error) {
	all := []jobs.Status{}
	err := q.List(ctx, func(status jobs.Status) error { all = append(all, status); return nil })
	return http.StatusOK, map[string]any{"jobs": all}, err
}

func (s *Server) show(ctx context.Context, q *jobs.Queue, r *http.Request) (int, any, error) {
	status, err := q.Get(ctx, jobs.ID(r.PathValue("id")))
	return http.StatusOK, status, err
}

func step(do func(*jobs.Queue, context.Context, jobs.ID) error) call {
	return func(ctx context.Context, q *jobs.Queue, r *http.Request) (int, any, error) {
		id := jobs.ID(r.PathValue("id"))
		if err := do(q, ctx, id); err != nil {
			return 0, nil, err
		}
		status, err := q.Get(ctx, id)
		return http.StatusOK, status, err
	}
}

// worker is a member of the group, as the API shows it.
type worker struct {
	ID    fence.Token     `json:"id"`
	Name  string          `json:"name"`
	Offer json.RawMessage `json:"offer,omitempty"`
}

func (s *Server) workers(ctx context.Context, q *jobs.Queue, _ *http.Request) (int, any, error) {
	members, err := q.Group().Members(ctx)
	all := []worker{}
	for _, m := range members {
		all = append(all, worker{m.ID, m.Name, m.Value})
	}
	return http.StatusOK, map[string]any{"workers": all}, err
}

// events streams a job's status until its end, until the client leaves, or until the server stops.
func (s *Server) events(serving context.Context) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(serving, cancel)()
		q, err := jobs.New(s.Coordinator, r.PathValue("group"))
		if err != nil {
			s.failed(w, r, err)
			return
		}
		begun, ended := false, errors.New("the job has ended")
		err = q.Watch(ctx, jobs.ID(r.PathValue("id")), func(status jobs.Status) error {
			if !begun {
				begun = true
				w.Header().Set("Content-Type", "text/event-stream")
				w.Header().Set("Cache-Control", "no-store")
			}
			text, err := json.Marshal(status)
			if err != nil {
				return err
			}
			if _, err := w.Write([]byte("data: " + string(text) + "\n\n")); err != nil {
				return err
			}
			if status.State.Finished() {
				return ended
			}
			return http.NewResponseController(w).Flush()
		})
		if !begun {
			s.failed(w, r, err)
		}
	}
}

// badRequest is an error of the client's JSON.
type badRequest struct{ error }

func (b badRequest) Unwrap() error { return b.error }

// failed answers with an error.
func (s *Server) failed(w http.ResponseWriter, r *http.Request, err error) {
	_, bad := errors.AsType[badRequest](err)
	_, large := errors.AsType[*http.MaxBytesError](err)
	code := http.StatusInternalServerError
	switch {
	case large || errors.Is(err, documents.ErrTooLarge):
		code = http.StatusRequestEntityTooLarge
	case bad || errors.Is(err, jobs.ErrBadSpec) || errors.Is(err, jobs.ErrBadID) ||
		errors.Is(err, group.ErrBadName):
		code = http.StatusBadRequest
	case errors.Is(err, jobs.ErrUnknownJob):
		code = http.StatusNotFound
	case errors.Is(err, jobs.ErrFinished), errors.Is(err, jobs.ErrTaken):
		code = http.StatusConflict
	case errors.Is(err, documents.ErrUnreachable) || errors.Is(err, context.DeadlineExceeded):
		code = http.StatusServiceUnavailable
	}
	if code >= http.StatusInternalServerError && r.Context().Err() == nil {
		s.Log.Warn("a request has failed", "method", r.Method, "path", r.URL.Path, "error", err)
	}
	fail(w, code, err)
}

func fail(w http.ResponseWriter, code int, err error) {
	send(w, code, map[string]string{"error": err.Error()})
}

func send(w http.ResponseWriter, code int, answer any) {
	text, err := json.Marshal(answer)
	if err != nil {
		code, text = http.StatusInternalServerError, []byte(`{"error":"the answer is not JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = w.Write(append(text, '\n'))
}
