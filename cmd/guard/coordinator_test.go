package main

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/test/poll"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// says fails unless a text has all the parts.
func says(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("no %s in %s", part, text)
		}
	}
}

func TestAGuardIsNotReadyWithAWrongPasswordOfTheCoordinator(t *testing.T) {
	t.Parallel()
	_, env := fresh(t)
	invoke(t, env, "install")
	elections := serverstest.Postgres(t, servers.PostgresOptions{
		HBA: "local all all trust\nhost all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 " +
			"scram-sha-256\n",
	})
	execute(t, elections.URL("postgres", "postgres"), "create role voter login password 'right'")
	url := strings.Replace(elections.URL("voter", "postgres"), "voter@", "voter:wr0ng@", 1)
	r := serving(t, append(env, "GUARD_COORDINATOR="+url)...)
	body := r.ready(http.StatusServiceUnavailable)
	says(t, body, `"coordinator":"`, "password authentication failed",
		`"postgres":"the coordinator cannot be asked`)
	if strings.Contains(body, "wr0ng") || strings.Count(body, "password authentication failed") != 1 {
		t.Errorf("a secret, or the cause more than once: %s", body)
	}
	_, err := r.connect(5)
	wantCode(t, err, "RF011")
	awaitMetrics(t, r, "ringfence_coordinator_ready 0", `ringfence_ready{protocol="postgres"} 0`,
		`ringfence_refusals_total{protocol="postgres",reason="no_coordinator"} 1`,
		`ringfence_refusals_total{protocol="postgres",reason="not_leader"} 0`)
	says(t, r.log.String(), `"protocol":"coordinator"`)
}

func TestAGuardIsNotReadyWhileTheCoordinatorIsFrozen(t *testing.T) {
	t.Parallel()
	_, env := fresh(t)
	invoke(t, env, "install")
	relay := serverstest.NewRelay(t, serverstest.SharedEtcd(t).Addr())
	env = append(env, "GUARD_COORDINATOR=etcd://"+relay.Addr()+"/frozen")
	refuses := serving(t, env...)
	keeps := serving(t, append(env, "GUARD_COORDINATOR_OUTAGE=keep")...)
	for _, r := range []*running{refuses, keeps} {
		says(t, r.ready(http.StatusOK), `"coordinator":"ok"`)
		awaitMetrics(t, r, "ringfence_coordinator_ready 1", `ringfence_ready{protocol="postgres"} 1`)
	}
	relay.Hold()
	says(t, refuses.ready(http.StatusServiceUnavailable), "did not answer in time", "no answer of "+
		relay.Addr())
	awaitMetrics(t, refuses, "ringfence_coordinator_ready 0", `ringfence_ready{protocol="postgres"} 0`)
	awaitMetrics(t, keeps, "ringfence_coordinator_ready 0", `ringfence_ready{protocol="postgres"} 1`)
	says(t, keeps.ready(http.StatusOK), "no answer of "+relay.Addr(), `"postgres":"ok"`)
	relay.Pass()
	refuses.ready(http.StatusOK)
}

// awaitMetrics waits until /metrics has all these lines.
func awaitMetrics(t *testing.T, r *running, lines ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if !poll.Until(30*time.Second, func() bool {
		_, page := r.get(ctx, "/metrics")
		return !slices.ContainsFunc(lines, func(line string) bool {
			return !strings.Contains(page, line+"\n")
		})
	}) {
		t.Fatalf("the metrics lack one of %q", lines)
	}
}
