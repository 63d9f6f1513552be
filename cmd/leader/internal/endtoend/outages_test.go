package endtoend

import (
	"bufio"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/test/elections"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// maxRate is how many requests in a second a program may send to a coordinator that fails. A
// connection counts as one, and so does each piece of what a client sends, such as a ping. A
// machine that stalls lowers the rate.
const maxRate = 20

const outageSecret = "outage-outage-outage"

func TestNoProgramHurriesWhileACoordinatorFails(t *testing.T) {
	t.Parallel()
	for name, coordinator := range elections.Coordinators {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := coordinator.Failing(t)
			for _, kind := range []struct {
				name      string
				fail, end func(*servers.Relay)
			}{
				{"reset after accept", func(r *servers.Relay) {
					r.To("127.0.0.1:1")
				}, func(r *servers.Relay) { r.To(c.Server) }},
				{"no answer", (*servers.Relay).Hold, (*servers.Relay).Pass},
				{"reset at the answer", func(r *servers.Relay) { r.Set(func() { r.Losing = true }) },
					func(r *servers.Relay) { r.Set(func() { r.Losing = false }) }},
				{"access denied", func(*servers.Relay) {
					c.Deny(true)
				}, func(*servers.Relay) { c.Deny(false) }},
			} {
				t.Run(kind.name, func(t *testing.T) { measure(t, c, kind.fail, kind.end) })
			}
		})
	}
}

// measure starts each program behind a relay of its own, and counts what it sends while that fails.
func measure(t *testing.T, c elections.Failing, fail, end func(*servers.Relay)) {
	relays := map[string]*servers.Relay{}
	for program, start := range outagePrograms(t) {
		relays[program] = serverstest.NewRelay(t, c.Server)
		start(c.URL(relays[program].Addr()))
	}
	sent := func(r *servers.Relay) int { return r.Sent() + r.Accepted() }
	for _, r := range relays {
		for last := -1; last != sent(r) || last == 0; { // it has begun, and is at rest
			last = sent(r)
			time.Sleep(300 * time.Millisecond)
		}
	}
	before, began := map[string]int{}, time.Now()
	for program, r := range relays {
		before[program] = sent(r)
		fail(r)
	}
	time.Sleep(8 * time.Second)
	for program, r := range relays {
		rate := float64(sent(r)-before[program]) / time.Since(began).Seconds()
		t.Logf("%-6s %.1f requests/s", program, rate)
		if rate > maxRate {
			t.Errorf("%s sends %.1f requests in a second", program, rate)
		}
	}
	for _, r := range relays {
		end(r)
	}
}

// outagePrograms start each program with a coordinator.
func outagePrograms(t *testing.T) map[string]func(coordinator string) {
	at := serverstest.FreeAddresses(t, 3)
	file := filepath.Join(t.TempDir(), "t.yaml")
	text := "task: t\nresource: outage_task\nsteps: [{name: s, run: sleep 600}]\n"
	must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
	run := func(name string, env []string, args ...string) {
		t.Helper()
		p := serverstest.Program(t, name+"-"+args[0], env,
			append([]string{filepath.Join(programs, name)}, args...)...)
		must.Succeed(t, p.Start(t.Context()))
	}
	leader := func(args ...string) func(string) {
		return func(coordinator string) {
			run("leader", []string{
				"PATH=" + os.Getenv("PATH"), "LEADER_COORDINATOR=" + coordinator, "LEADER_SESSION_TIMEOUT=10s",
				"LEADER_HTTP_TOKEN=" + outageSecret,
			}, args...)
		}
	}
	return map[string]func(string){
		"run":   leader("run", "--again", "outage_run", "--", "sleep", "600"),
		"watch": leader("watch", "outage_watch"),
		"task":  leader("task", file),
		"work":  leader("work", "outage"),
		"serve": func(coordinator string) {
			leader("serve", "--listen", at[0], "outage")(coordinator)
			follow(t, "GET", "http://"+at[0]+"/v1/groups/outage/events", "")
		},
		"agent": func(coordinator string) {
			leader("agent", "--listen", at[1])(coordinator)
			follow(t, "POST", "http://"+at[1]+"/v1/terms", `{"resource":"outage_agent","holder":"c"}`)
		},
		"guard": func(coordinator string) {
			pg := serverstest.SharedPostgres(t)
			database := pg.URL("postgres", serverstest.FreshDatabase(t, pg))
			must.Succeed(t, pgmarks.Install(t.Context(), database, "postgres"))
			claim := fence.Claim{Resource: "outage_run", Token: 1, Issuer: "an earlier one", Holder: "h"}
			must.Succeed(t, pgmarks.NewRaiser(database).Raise(t.Context(), claim))
			run("guard", []string{
				"PATH=" + os.Getenv("PATH"), "GUARD_COORDINATOR=" + coordinator,
				"GUARD_POSTGRES_UPSTREAM=" + database, "GUARD_POSTGRES_LISTEN=" + at[2],
			}, "serve")
		},
	}
}

// follow is a client that reads an endless answer, and asks again a second after its end. It
// returns once there is a first one.
func follow(t *testing.T, method, url, body string) {
	ctx, cancel := context.WithCancel(t.Context())
	over, first := make(chan struct{}), make(chan struct{})
	begun := sync.OnceFunc(func() { close(first) })
	ask := func() {
		req, _ := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
		req.Header.Set("Authorization", "Bearer "+outageSecret)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return
		}
		defer resp.Body.Close()
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			begun()
		}
	}
	go func() {
		defer close(over)
		for ctx.Err() == nil {
			ask()
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-over })
	select {
	case <-first:
	case <-time.After(time.Minute):
		t.Fatal("no answer of " + url)
	}
}
