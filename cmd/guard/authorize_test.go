package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestAuthorizationFromOffToOnAndBack(t *testing.T) {
	t.Parallel()
	_, env := fresh(t)
	cache := serverstest.Redis(t, servers.RedisOptions{})
	listen := serverstest.FreeAddresses(t, 1)[0]
	env = append(env, "GUARD_REDIS_UPSTREAM="+cache.URL())
	run := func(want int, args ...string) (stdout, stderr string) {
		t.Helper()
		code, out, errs := invoke(t, env, args...)
		if code != want {
			t.Errorf("guard %q: exit %d, want %d: %s%s", args, code, want, out, errs)
		}
		return out, errs
	}
	if _, errs := run(cli.Error, "authorize", "on"); !strings.Contains(errs, "guard install") {
		t.Errorf("before the installation: %s", errs)
	}
	run(cli.Done, "install")
	for _, wrong := range [][]string{
		{"authorize"}, {"authorize", "maybe"}, {"allow", "app"}, {"allow", "app", "Orders"}, {"forbid"},
		{"allow", "--server", "mysql", "app", "orders"}, {"allow", "-o", "yaml"},
	} {
		run(cli.Usage, wrong...)
	}
	if out, _ := run(cli.Done, "allow"); !strings.Contains(out, "postgres: authorization is off") ||
		!strings.Contains(out, "redis: authorization is off") {
		t.Errorf("at first: %s", out)
	}

	r := serving(t, append(env, "GUARD_REDIS_LISTEN="+listen)...)
	r.ready(200)
	if _, err := r.connect(1); err != nil {
		t.Fatal(err)
	}
	out, errs := run(cli.Error, "authorize", "on")
	if !strings.Contains(out, "of app under orders") ||
		!strings.Contains(errs, "nothing was changed") {
		t.Errorf("a session would be refused: %s%s", out, errs)
	}
	if _, err := r.connect(2); err != nil {
		t.Fatalf("authorization is on although nothing was changed: %v", err)
	}
	run(cli.Done, "authorize", "--force", "on")
	_, err := r.connect(3)
	wantCode(t, err, "RF010")
	claim := fence.Claim{Resource: "orders", Token: 3, Holder: "here"}
	err = redismarks.NewRaiser("redis://"+listen).Raise(t.Context(), claim)
	if !errors.Is(err, fence.ErrNotAuthorized) ||
		!strings.Contains(err.Error(), `"default" may not claim`) {
		t.Errorf("in Redis: %v", err)
	}
	if _, page := r.get(t.Context(), "/metrics"); !strings.Contains(page,
		`reason="not_authorized"} 1`) {
		t.Error("the metrics do not count the refusals by reason")
	}
	if !strings.Contains(r.log.String(), `"reason":"not_authorized"`) {
		t.Error("the log has no reason")
	}

	run(cli.Done, "allow", "--server", "postgres", "app", "orders", "st*")
	if _, err := r.connect(3); err != nil {
		t.Errorf("an allowed role: %v", err)
	}
	run(cli.Done, "allow", "--server", "redis", "default", "*")
	if err := redismarks.NewRaiser("redis://"+listen).Raise(t.Context(), claim); err != nil {
		t.Errorf("an allowed user: %v", err)
	}
	var all []storeAuthorization
	out, _ = run(cli.Done, "allow", "-o", "json")
	if err := json.Unmarshal([]byte(out), &all); err != nil || len(all) != 2 || !all[0].On ||
		len(all[0].Allowed) != 2 || len(all[1].Allowed) != 1 || all[1].Allowed[0].Role != "default" ||
		len(all[0].Strangers) != 0 {
		t.Errorf("%v: %s", err, out)
	}
	run(cli.Error, "allow", "--server", "postgres", "nobody_such", "orders")
	if out, _ := run(cli.Done, "forbid", "app"); !strings.Contains(out, "postgres: removed 2") {
		t.Errorf("forbid: %s", out)
	}
	_, err = r.connect(3)
	wantCode(t, err, "RF010")
	run(cli.Done, "authorize", "off")
	if _, err := r.connect(4); err != nil {
		t.Error(err)
	}
}
