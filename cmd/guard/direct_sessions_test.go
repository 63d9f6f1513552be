package main

import (
	"strings"
	"testing"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/internal/test/pgtest"
)

func TestDirectSessionsFromATrialToOff(t *testing.T) {
	t.Parallel()
	pg, env := fresh(t)
	run := func(want int, args ...string) (stdout, stderr string) {
		t.Helper()
		code, out, errs := invoke(t, env, args...)
		if code != want {
			t.Errorf("guard %q: exit %d, want %d: %s%s", args, code, want, out, errs)
		}
		return out, errs
	}
	says := func(text string, args ...string) {
		t.Helper()
		if out, errs := run(cli.Done, args...); !strings.Contains(out, text) {
			t.Errorf("guard %q says %s%s", args, out, errs)
		}
	}
	run(cli.Done, "install")
	run(cli.Usage, "direct", "--off", "app")
	run(cli.Usage, "direct", "--trial")
	says("select ringfence.direct(array[E'app']::name[], false)", "direct", "--print", "app")
	says("admits no sessions itself", "direct")
	if !pgtest.HasLoginTriggers(t, pg.URL("postgres", "postgres")) {
		if _, errs := run(cli.Error, "direct", "app"); !strings.Contains(errs, "Postgres 17") {
			t.Error(errs)
		}
		return
	}
	says("a trial fences nothing", "direct", "--trial", "app")
	says("a trial fences nothing", "status")
	says("admits the sessions of app itself", "direct", "app")
	says("admits the sessions of app itself", "direct")
	says("the database admits the sessions of app itself", "status")
	says("admits no sessions itself", "direct", "--off")
}
