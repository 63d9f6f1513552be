package main

import (
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// A guard whose own certificate has expired admits nobody.
func TestTheEndOfTheGuardsOwnCertificatesIsShown(t *testing.T) {
	t.Parallel()
	own := serverstest.NewAuthority(t).Issue("guard")
	files := "?sslcert=" + own.CertFile + "&sslkey=" + own.KeyFile
	c, err := load([]string{
		"GUARD_COORDINATOR=etcds://h1,h2/" + files,
		"GUARD_POSTGRES_LISTEN=:6432", "GUARD_POSTGRES_UPSTREAM=postgres://guard@h/db" + files,
		"GUARD_REDIS_LISTEN=:7379", "GUARD_REDIS_UPSTREAM=rediss://h",
	}, served...)
	must.Succeed(t, err)
	registry := prometheus.NewRegistry()
	c.ownCertificates(guard.NewMetrics(registry))
	families, err := registry.Gather()
	must.Succeed(t, err)
	var shown []string
	for _, f := range families {
		if f.GetName() != "ringfence_certificate_expiry_timestamp_seconds" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetGauge().GetValue() <= 0 {
				t.Errorf("it has expired: %v", m)
			}
			shown = append(shown, m.GetLabel()[0].GetValue())
		}
	}
	if slices.Sort(shown); !slices.Equal(shown, []string{"coordinator", "postgres"}) {
		t.Errorf("the metrics show %v", shown)
	}
}
