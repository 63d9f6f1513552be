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

// Several is a Protocol whose server has several databases. Ready returns nil while one of them can
// admit: the outage of a database is no reason to send clients of the others elsewhere.
type Several interface {
	// Databases probes the databases that are served now. The error is nil for those that can admit.
	Databases(ctx context.Context) map[string]error
}

// Handler serves /livez (the process runs), /readyz (every protocol can admit; otherwise 503 and
// the reasons), /readyz/NAME, which is the same for one protocol, and /metrics.
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
	for _, p := range protocols {
		mux.HandleFunc("/readyz/"+p.Name(), func(w http.ResponseWriter, r *http.Request) {
			readyz(w, r, []Protocol{p}, draining)
		})
	}
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
		err := p.Ready(ctx)
		answers[p.Name()] = state(err)
		if err != nil {
			status = http.StatusServiceUnavailable
		}
		if s, ok := p.(Several); ok {
			databases := s.Databases(ctx)
			for database, err := range databases {
				if len(databases) > 1 {
					answers[p.Name()+" "+database] = state(err)
				}
			}
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

func state(err error) string {
	if err != nil {
		return err.Error()
	}
	return "ok"
}
