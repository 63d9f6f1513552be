package guard

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
)

func TestReadinessNamesTheProtocolThatCannotAdmitAndTheReason(t *testing.T) {
	draining := make(chan struct{})
	sick := &fake{ready: errors.New("ringfence is not installed")}
	r := prometheus.NewRegistry()
	m := NewMetrics(r)
	m.accepted(sick.Name())
	for _, test := range []struct {
		path      string
		protocols []Protocol
		drain     bool
		status    int
		says      string
	}{
		{"/livez", []Protocol{sick}, false, 200, "ok\n"},
		{"/readyz", []Protocol{&fake{}}, false, 200, `{"fake":"ok"}`},
		{"/readyz", nil, false, 200, "{}"},
		{"/readyz", []Protocol{sick}, false, 503, `{"fake":"ringfence is not installed"}`},
		{"/metrics", []Protocol{sick}, false, 200,
			`ringfence_connections_accepted_total{protocol="fake"} 1`},
		{"/nothing", nil, false, 404, ""},
		{"/readyz", []Protocol{&fake{}}, true, 503, `"guard":"shutting down"`},
		{"/livez", []Protocol{sick}, true, 200, "ok\n"},
	} {
		if test.drain {
			select {
			case <-draining:
			default:
				close(draining)
			}
		}
		w := httptest.NewRecorder()
		Handler(Readiness{Protocols: test.protocols}, r, draining).ServeHTTP(w,
			httptest.NewRequest(http.MethodGet, test.path, nil))
		body, _ := io.ReadAll(w.Body)
		if w.Code != test.status || !strings.Contains(string(body), test.says) {
			t.Errorf("%s: %d %s; want %d and %s", test.path, w.Code, body, test.status, test.says)
		}
	}
}

// severalFake is a protocol of two databases, one of which cannot admit.
type severalFake struct{ fake }

func (*severalFake) Databases(context.Context) map[string]error {
	return map[string]error{"shop": nil, "crm": errors.New("no schema")}
}

func TestReadinessListsTheDatabasesAndHasAPageForEachProtocol(t *testing.T) {
	all := []Protocol{&severalFake{}}
	h := Handler(Readiness{Protocols: all}, prometheus.NewRegistry(), make(chan struct{}))
	for path, status := range map[string]int{
		"/readyz": 200, "/readyz/fake": 200, "/readyz/other": 404,
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != status {
			t.Errorf("%s: %d", path, w.Code)
		}
		if body := w.Body.String(); status == 200 &&
			body != `{"fake":"ok","fake crm":"no schema","fake shop":"ok"}`+"\n" {
			t.Errorf("%s: %s", path, body)
		}
	}
}

// frozen is a protocol whose server does not answer.
type frozen struct{ fake }

func (*frozen) Name() string { return "frozen" }

func (*frozen) Ready(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// prompt is a protocol whose server answers, if it is asked in time.
type prompt struct{ fake }

func (*prompt) Ready(ctx context.Context) error { return ctx.Err() }

func TestAServerThatDoesNotAnswerTakesNoTimeFromTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, frozenCoordinator := range []bool{false, true} {
			r := Readiness{Protocols: []Protocol{&prompt{}}, Needed: true}
			if frozenCoordinator {
				r.Coordinator = (&frozen{}).Ready
			} else {
				r.Protocols = append([]Protocol{&frozen{}}, r.Protocols...)
			}
			w := httptest.NewRecorder()
			Handler(r, prometheus.NewRegistry(), make(chan struct{})).ServeHTTP(w,
				httptest.NewRequest(http.MethodGet, "/readyz", nil))
			want := `"fake":"ok"`
			if frozenCoordinator {
				want = `"fake":"` + errNoCoordinator.Error()
			}
			if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), want) {
				t.Errorf("%d %s, want %s", w.Code, w.Body, want)
			}
		}
	})
}
