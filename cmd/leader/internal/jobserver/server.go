package jobserver

import (
	"context"
	"embed"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/ringfence/ringfence/cmd/internal/webpage"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/fence/group"
	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/jobs/job"
	"github.com/ringfence/ringfence/jobs/queueview"
)

//go:embed openapi.yaml
var openAPI []byte

//go:embed files
var files embed.FS

// Server serves the API and the page.
type Server struct {
	Coordinator documents.Coordinator
	Groups      []string      // that the page offers; it shows others by name
	Token       string        // a client has to send it: Authorization: Bearer …; "" asks for none
	Patience    time.Duration // how long a call waits for the coordinator
	// Titled gives a job that is handed in without a title one. May be nil.
	Titled func(job.Spec) job.Spec
	Log    *slog.Logger
}

const maxBody = 2 * job.MaxPayload // bytes of a request

// Handler returns the API and the page. Their event streams end with ctx.
func (s *Server) Handler(ctx context.Context) http.Handler {
	api := http.NewServeMux()
	const group = "/v1/groups/{group}"
	const all, one = group + "/jobs", group + "/jobs/{id}"
	api.HandleFunc("POST "+all, s.with(s.submit))
	api.HandleFunc("GET "+all, s.with(s.list))
	api.HandleFunc("GET "+one, s.with(s.show))
	api.HandleFunc("GET "+one+"/spec", s.with(s.spec))
	api.HandleFunc("GET "+one+"/events", s.jobEvents(ctx))
	api.HandleFunc("POST "+one+"/cancel", s.with(step((*jobs.Queue).Cancel)))
	api.HandleFunc("POST "+one+"/retry", s.with(step((*jobs.Queue).Retry)))
	api.HandleFunc("GET "+one+"/output", s.with(s.output))
	api.HandleFunc("POST "+one+"/run", s.with(step((*jobs.Queue).RunNow)))
	api.HandleFunc("POST "+one+"/pause", s.with(step((*jobs.Queue).Pause)))
	api.HandleFunc("POST "+one+"/resume", s.with(step((*jobs.Queue).Resume)))
	api.HandleFunc("GET "+group+"/workers", s.with(s.workers))
	api.HandleFunc("GET /v1/groups", s.groups)
	streams := webpage.NewStreams()
	context.AfterFunc(ctx, streams.Close)
	api.HandleFunc("GET "+group+"/events",
		s.groupEvents(streams, &boards{coordinator: s.Coordinator, all: map[string]*board{}}))

	mux := http.NewServeMux() // what needs no token says nothing
	mux.Handle("/v1/", webpage.API(webpage.Access{
		Token: s.Token, Setting: "LEADER_HTTP_TOKEN", Local: true,
	}, maxBody, api))
	mux.HandleFunc("GET /openapi.yaml", func(w http.ResponseWriter, _ *http.Request) {
		webpage.Secure(w.Header())
		w.Header().Set("Content-Type", "application/yaml")
		_, _ = w.Write(openAPI)
	})
	webpage.Register(mux, files, "page.html", "page.js", "access.js", "act.js", "job.js", "list.js",
		"name.js",
		"output.js", "timeline.js", "jobs.css")
	return mux
}

// call is one endpoint. It returns the answer, with the code for a good one.
type call func(ctx context.Context, q *queueview.View, r *http.Request) (code int, answer any,
	err error)

// with gives a call the group's jobs, a limited time, and its answer a form.
func (s *Server) with(do call) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), s.Patience)
		defer cancel()
		q, err := queueview.New(s.Coordinator, r.PathValue("group"))
		var code int
		var answer any
		if err == nil {
			code, answer, err = do(ctx, q, r)
		}
		if err != nil {
			s.failed(w, r, err)
			return
		}
		webpage.Answer(w, code, answer)
	}
}

func (s *Server) submit(
	ctx context.Context, q *queueview.View, r *http.Request,
) (int, any, error) {
	spec, err := readSpec(r)
	if err != nil {
		return 0, nil, badRequest{err}
	}
	if s.Titled != nil {
		spec = s.Titled(spec)
	}
	id, err := q.Submit(ctx, spec)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w; the job may have been handed in: GET %s lists it, and a unique key makes "+
			"it safe to submit it again", err, r.URL.Path)
	}
	return http.StatusCreated, map[string]job.ID{"id": id}, err
}

// pageDefault is how many jobs a list has if the request does not say.
const pageDefault = 100

func (s *Server) list(ctx context.Context, q *queueview.View, r *http.Request) (int, any, error) {
	selected, err := selection(r.URL.Query())
	if err != nil {
		return 0, nil, badRequest{err}
	}
	page, more, err := q.Page(ctx, selected)
	answer := map[string]any{"jobs": append([]job.Status{}, page...)}
	if more {
		answer["next"] = page[len(page)-1].ID
	}
	return http.StatusOK, answer, err
}

// selection reads the parameters of a list.
func selection(v url.Values) (s queueview.Selection, err error) {
	for _, name := range []string{"kind", "text", "state", "after", "limit"} {
		if v.Has(name) && strings.TrimSpace(v.Get(name)) == "" {
			return s, fmt.Errorf("%s is empty: leave it out, or give it a value", name)
		}
	}
	s.Kind, s.Text, s.Limit = v.Get("kind"), v.Get("text"), pageDefault
	if text := v.Get("state"); text != "" {
		if s.State, err = job.ParseState(text); err != nil {
			return s, err
		}
	}
	if text := v.Get("after"); text != "" {
		if s.After, err = job.ParseID(text); err != nil {
			return s, err
		}
	}
	if text := v.Get("limit"); text != "" {
		if s.Limit, err = strconv.Atoi(text); err != nil || s.Limit < 1 || s.Limit > queueview.MaxPage {
			return s, fmt.Errorf("the limit is %.40q, not 1 to %d", text, queueview.MaxPage)
		}
	}
	return s, nil
}

func (s *Server) show(ctx context.Context, q *queueview.View, r *http.Request) (int, any, error) {
	status, err := q.Get(ctx, job.ID(r.PathValue("id")))
	shown := Job{Status: status}
	if err == nil {
		shown.Calendar, err = q.Calendar(ctx, status)
	}
	if err != nil || status.State != job.Waiting {
		return http.StatusOK, shown, err
	}
	workers, err := q.Workers(ctx)
	shown.WhyWaiting = queueview.WhyWaiting(status, workers, nil)
	return http.StatusOK, shown, err
}

// Output is what a job has brought.
type Output struct {
	job.Peeked
	Running bool `json:"running"` // so far; else it is the result of the last attempt that has ended
}

func (s *Server) output(ctx context.Context, q *queueview.View, r *http.Request) (int, any, error) {
	id := job.ID(r.PathValue("id"))
	p, err := q.Peek(ctx, id)
	if !errors.Is(err, job.ErrWrongState) {
		return http.StatusOK, Output{p, true}, err
	}
	status, err := q.Get(ctx, id)
	p = job.Peeked{Result: status.Result}
	if n := len(status.History); n > 0 {
		p.Attempt = status.History[n-1].Attempt
	}
	return http.StatusOK, Output{p, false}, err
}

func (s *Server) spec(ctx context.Context, q *queueview.View, r *http.Request) (int, any, error) {
	spec, err := q.Spec(ctx, job.ID(r.PathValue("id")))
	return http.StatusOK, spec, err
}

func (s *Server) groups(w http.ResponseWriter, _ *http.Request) {
	webpage.Answer(w, http.StatusOK, map[string]any{"groups": append([]string{}, s.Groups...)})
}

func step(do func(*jobs.Queue, context.Context, job.ID) error) call {
	return func(ctx context.Context, q *queueview.View, r *http.Request) (int, any, error) {
		id := job.ID(r.PathValue("id"))
		if err := do(q.Queue, ctx, id); err != nil {
			return 0, nil, err
		}
		status, err := q.Get(ctx, id)
		if err != nil {
			err = fmt.Errorf("it was done, but the status cannot be read: %w", err)
		}
		return http.StatusOK, status, err
	}
}

func (s *Server) workers(
	ctx context.Context, q *queueview.View, _ *http.Request,
) (int, any, error) {
	o, err := q.Overview(ctx, 0)
	return http.StatusOK, map[string]any{"workers": append([]queueview.Worker{}, o.Workers...)}, err
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
	case bad || errors.Is(err, job.ErrBadSpec) || errors.Is(err, job.ErrBadID) ||
		errors.Is(err, group.ErrBadName):
		code = http.StatusBadRequest
	case errors.Is(err, job.ErrNotFound):
		code = http.StatusNotFound
	case errors.Is(err, job.ErrWrongState), errors.Is(err, job.ErrTaken):
		code = http.StatusConflict
	case errors.Is(err, jobs.ErrFull):
		code = http.StatusTooManyRequests
	case errors.Is(err, queueview.ErrNoAnswer):
		code = http.StatusGatewayTimeout
	case errors.Is(err, documents.ErrUnreachable) || errors.Is(err, context.DeadlineExceeded):
		code = http.StatusServiceUnavailable
	}
	if code >= http.StatusInternalServerError && r.Context().Err() == nil {
		s.Log.Warn("a request has failed", "method", r.Method, "path", r.URL.Path, "error", err)
	}
	webpage.Fail(w, code, err)
}
