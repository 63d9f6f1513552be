package guard

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// readyTime bounds one readiness check.
const readyTime = 3 * time.Second

// Handler serves /livez (the process runs), /readyz (every protocol can admit; otherwise 503 and
// the reasons) and /metrics.
func Handler(
	protocols []Protocol, metrics prometheus.Gatherer, draining <-chan struct{},
) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("ok\n"))
	})
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, r *http.Request) {
		readyz(w, r, protocols, draining)
	})
	mux.Handle("/metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	return mux
}

func readyz(
	w http.ResponseWriter, r *http.Request, protocols []Protocol, draining <-chan struct{},
) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTime)
	defer cancel()
	status := http.StatusOK
	answers := map[string]string{}
	for _, p := range protocols {
		answers[p.Name()] = "ok"
		if err := p.Ready(ctx); err != nil {
			answers[p.Name()] = err.Error()
			status = http.StatusServiceUnavailable
		}
	}
	select {
	case <-draining:
		answers["guard"] = "shutting down"
		status = http.StatusServiceUnavailable
	default:
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answers)
}
