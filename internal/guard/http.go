package guard

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// readyTime bounds the answer of each store, and of the coordinator. A balancer that asks every
// second or two should hear of a silent server at once.
const readyTime = 900 * time.Millisecond

// Handler serves /livez (the process runs), /readyz (every protocol can admit; otherwise 503 and
// the reasons), /readyz/NAME, which is the same for one protocol, and /metrics.
func Handler(r Readiness, metrics prometheus.Gatherer, draining <-chan struct{}) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("ok\n"))
	})
	mux.Handle("/readyz", readyz(r, draining))
	for _, p := range r.Protocols {
		one := r
		one.Protocols = []Protocol{p}
		mux.Handle("/readyz/"+p.Name(), readyz(one, draining))
	}
	mux.Handle("/metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	return mux
}

func readyz(r Readiness, draining <-chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, request *http.Request) {
		l := r.Look(request.Context(), readyTime)
		status, answers := http.StatusOK, map[string]string{}
		if l.Coordinated {
			answers["coordinator"] = state(l.Coordinator)
		}
		for name := range l.Protocols {
			err := l.Ready(name)
			answers[name] = state(err)
			if err != nil {
				status = http.StatusServiceUnavailable
			}
			if len(l.Databases[name]) > 1 {
				for database, err := range l.Databases[name] {
					answers[name+" "+database] = state(err)
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
}

func state(err error) string {
	if err != nil {
		return err.Error()
	}
	return "ok"
}
