package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestHealthReportsWhatReadyzReports(t *testing.T) {
	t.Parallel()
	_, env := fresh(t)
	if code, out, errs := invoke(t, env, "health"); code != cli.Error || out != "" ||
		!strings.Contains(errs, "GUARD_HTTP_LISTEN") {
		t.Errorf("without an address: exit %d, %q, %q", code, out, errs)
	}
	r := serving(t, env...)
	r.ready(http.StatusServiceUnavailable)
	if code, _, errs := invoke(t, r.env, "health"); code != cli.Error ||
		!strings.Contains(errs, "guard install") {
		t.Errorf("not installed: exit %d, %q", code, errs)
	}
	invoke(t, env, "install")
	r.ready(http.StatusOK)
	if code, out, errs := invoke(t, r.env, "health"); code != cli.Done || out+errs != "" {
		t.Errorf("ready: exit %d, %q, %q", code, out, errs)
	}
	_, port, _ := strings.Cut(r.page, ":")
	everywhere := append(r.env, "GUARD_HTTP_LISTEN=:"+port)
	if code, _, errs := invoke(t, everywhere, "health"); code != cli.Done {
		t.Errorf("an address without a host: exit %d, %q", code, errs)
	}
}

func TestHealthFailsWhereNothingListens(t *testing.T) {
	t.Parallel()
	address := serverstest.FreeAddresses(t, 1)[0]
	env := []string{"GUARD_REDIS_UPSTREAM=redis://guard:s3cret@h/0", "GUARD_HTTP_LISTEN=" + address}
	code, _, errs := invoke(t, env, "health")
	if code != cli.Error || !strings.Contains(errs, "no guard answers") ||
		!strings.Contains(errs, address) {
		t.Errorf("exit %d, %q", code, errs)
	}
}

func TestHelpNamesHealth(t *testing.T) {
	t.Parallel()
	if code, out, _ := invoke(t, nil, "-h"); code != cli.Done ||
		!strings.Contains(out, "\n  health ") {
		t.Errorf("exit %d:\n%s", code, out)
	}
}
