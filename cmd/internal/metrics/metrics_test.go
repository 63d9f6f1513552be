package metrics

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/ringfence/ringfence/cmd/internal/webpage"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/fencetest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/jobs/queueview"
)

func TestTheOutcomeOfAnAttemptIsThatOfItsJob(t *testing.T) {
	wrong := errors.New("exit code 3")
	for want, c := range map[string]struct{ ended, err error }{
		done:      {nil, nil},
		failed:    {nil, wrong},
		timedOut:  {jobs.ErrTimeout, wrong},
		cancelled: {jobs.ErrCancelled, wrong},
		returned:  {jobs.ErrStopping, wrong},
		lost:      {jobs.ErrTakenBack, nil},
	} {
		if got := outcome(c.ended, c.err); got != want {
			t.Errorf("%v, %v: %s, want %s", c.ended, c.err, got, want)
		}
	}
	if got := outcome(fence.ErrExpired, wrong); got != lost {
		t.Errorf("a lost term: %s", got)
	}
	if got := outcome(jobs.ErrCancelled, nil); got != done {
		t.Errorf("done before it was cancelled: %s", got)
	}
}

// promlint knows Prometheus's rules for names, units and help texts.
func TestMetricsHaveTheFormThatPrometheusExpects(t *testing.T) {
	c := fencetest.NewMemory(time.Minute).Open()
	defer c.Close()
	m := New(c, func(text string) string { return text })
	m.Watch(c, "orders")
	q, err := queueview.New(c, "nightly")
	must.Succeed(t, err)
	w := jobs.Worker{Queue: q.Queue, Capacity: 4}
	m.Worker(&w)
	m.Group(q, "")
	families, err := m.registry.Gather()
	must.Succeed(t, err)
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	must.Succeed(t, err)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	if len(families) < 12 {
		t.Errorf("only %d families", len(families))
	}
}

func TestWithoutItsCoordinatorAProcessIsNotReadyAndSaysWhyWithoutASecret(t *testing.T) {
	c := fencetest.NewMemory(time.Minute).Open()
	m := New(c, func(string) string { return "it is gone" })
	_ = c.Close()
	h := m.Handler(webpage.Access{}, t.Context())
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	if w.Code != http.StatusServiceUnavailable ||
		!strings.Contains(w.Body.String(), `"coordinator":"it is gone"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	w = httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if !strings.Contains(w.Body.String(), "ringfence_coordinator_ready 0\n") {
		t.Errorf("%s", w.Body)
	}
}
