package metrics

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/ringfence/ringfence/cmd/internal/webpage"
)

// Handler serves
//
//	/livez           the process runs
//	/readyz          the coordinator answers, and the process does not stop; otherwise 503 and the reason
//	/readyz/leading  the same, and a term of this process is active
//	/metrics         for Prometheus
//
// Orchestrators have no token, so only /metrics needs one. stopping ends when the process has been
// told to end.
func (m *Metrics) Handler(access webpage.Access, stopping context.Context) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("ok\n"))
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		m.answer(w, r, stopping, false)
	})
	mux.HandleFunc("GET /readyz/leading", func(w http.ResponseWriter, r *http.Request) {
		m.answer(w, r, stopping, true)
	})
	shown := promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		if code, why := access.Refuse(w.Header(), r); why != nil {
			http.Error(w, why.Error(), code)
			return
		}
		shown.ServeHTTP(w, r)
	})
	return mux
}

// answer says whether the process is ready, and whether it leads.
func (m *Metrics) answer(
	w http.ResponseWriter, r *http.Request, stopping context.Context, leading bool,
) {
	status, answers := http.StatusOK, map[string]string{"coordinator": "ok"}
	refuse := func(part, why string) { status, answers[part] = http.StatusServiceUnavailable, why }
	if err := m.ready(r.Context()); err != nil {
		refuse("coordinator", err.Error())
	}
	if leading && !m.terms.leads() {
		refuse("term", "this process does not lead")
	}
	if stopping.Err() != nil {
		refuse("leader", "shutting down")
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answers)
}
