package main

import (
	"context"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/fence/fencetest"
	"github.com/ringfence/ringfence/internal/test/leadertest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/jobs/job"
)

// pages are the metrics and the readiness of a leader.
type pages struct {
	t     *testing.T
	at    string
	token string
}

// monitored returns a setup with a page, and its page.
func monitored(t *testing.T, s setup) (setup, pages) {
	at := serverstest.FreeAddresses(t, 1)[0]
	s.env = append(s.env, "LEADER_HTTP_LISTEN="+at)
	return s, pages{t: t, at: at}
}

func (p pages) get(path string) (code int, body string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.t.Context()), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.at+path, nil)
	must.Succeed(p.t, err)
	if p.token != "" {
		r.Header.Set("Authorization", "Bearer "+p.token)
	}
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text)
}

// answers waits until a page has this code.
func (p pages) answers(path string, want int) {
	p.t.Helper()
	leadertest.Eventually(p.t, path+" has the code", func() bool {
		code, _ := p.get(path)
		return code == want
	})
}

// shows waits until the metrics have these lines.
func (p pages) shows(lines ...string) {
	p.t.Helper()
	for _, line := range lines {
		leadertest.Eventually(p.t, "the metrics have "+line, func() bool {
			_, body := p.get("/metrics")
			return strings.Contains(body, line+"\n")
		})
	}
}

// accepted has Prometheus's own parser read the metrics, where there is one.
func (p pages) accepted() {
	p.t.Helper()
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		return
	}
	_, body := p.get("/metrics")
	check := exec.CommandContext(p.t.Context(), promtool, "check", "metrics")
	check.Stdin = strings.NewReader(body)
	if out, err := check.CombinedOutput(); err != nil {
		p.t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}

func TestALeaderShowsItsTermToPrometheusAndOrchestrators(t *testing.T) {
	memory := fencetest.NewMemory(longSession)
	first, page := monitored(t, setup{memory: memory})
	l := shell(t, first, "echo runs=$$; exec sleep 600")
	l.pid("runs")
	page.answers("/readyz", http.StatusOK)
	page.answers("/readyz/leading", http.StatusOK)
	page.shows(`ringfence_leader_terms{resource="orders",state="active"} 1`,
		`ringfence_leader_terms{resource="orders",state="standing"} 0`,
		`ringfence_leader_terms_won_total{resource="orders"} 1`,
		`ringfence_leader_terms_ended_total{cause="deposed",resource="orders"} 0`,
		"ringfence_coordinator_ready 1")
	page.accepted()

	second, standby := monitored(t, setup{memory: memory})
	begin(t, second, "run", "--again", "orders", "--", "/bin/sh", "-c", "exec sleep 600")
	standby.shows(`ringfence_leader_terms{resource="orders",state="standing"} 1`)
	standby.answers("/readyz", http.StatusOK)
	standby.answers("/readyz/leading", http.StatusServiceUnavailable)

	l.signals <- syscall.SIGTERM
	<-l.code
	standby.answers("/readyz/leading", http.StatusOK)
	leadertest.Depose(t, memory)
	standby.shows(`ringfence_leader_terms_ended_total{cause="deposed",resource="orders"} 1`,
		`ringfence_leader_terms_won_total{resource="orders"} 2`)
}

func TestAWorkerShowsItsJobsAndTheQueue(t *testing.T) {
	memory := fencetest.NewMemory(longSession)
	s, page := monitored(t, setup{memory: memory})
	l := begin(t, s, "work", "--capacity", "2", "nightly")
	page.shows(`ringfence_worker_capacity{group="nightly"} 2`,
		`ringfence_worker_attempts_total{group="nightly",outcome="failed"} 0`)
	for _, script := range []string{"exit 0", "exit 0", "exit 3"} {
		begin(t, setup{memory: memory}, "submit", "--wait", "nightly", "--", "/bin/sh", "-c", script)
	}
	page.shows(`ringfence_worker_attempts_total{group="nightly",outcome="done"} 2`,
		`ringfence_worker_attempts_total{group="nightly",outcome="failed"} 1`,
		`ringfence_worker_jobs{group="nightly"} 0`)
	begin(t, setup{memory: memory}, "submit", "--label", "nobody", "nightly", "--",
		"true").exits(cli.Done)
	page.shows(`ringfence_jobs{group="nightly",state="done"} 2`,
		`ringfence_jobs{group="nightly",state="waiting"} 1`,
		`ringfence_jobs_due{group="nightly"} 1`, `ringfence_jobs_workers{group="nightly"} 1`,
		`ringfence_jobs_capacity{group="nightly"} 2`)
	if _, body := page.get("/metrics"); strings.Contains(body,
		"ringfence_jobs_oldest_due_seconds{group=\"nightly\"} 0\n") {
		t.Errorf("the oldest job is due for no time:\n%s", body)
	}
	page.accepted()

	// names tell workers apart
	idle, other := monitored(t, setup{memory: memory, env: []string{"LEADER_HOLDER=idle"}})
	begin(t, idle, "work", "nightly")
	other.shows(`ringfence_worker_capacity{group="nightly"} 4`)
	if _, body := other.get("/metrics"); strings.Contains(body, "ringfence_jobs_due") {
		t.Error("a worker that does not assign shows the queue, too")
	}
	l.signals <- syscall.SIGTERM
	<-l.code
}

func TestTheServerOfJobsShowsItsGroupsToWhoHasTheToken(t *testing.T) {
	memory := fencetest.NewMemory(longSession)
	c := memory.Open()
	defer c.Close()
	q, err := jobs.New(c, "nightly")
	must.Succeed(t, err)
	_, err = q.Submit(t.Context(), job.Spec{Kind: "a"})
	must.Succeed(t, err)
	page := pages{t: t, at: serverstest.FreeAddresses(t, 1)[0]}
	begin(t, setup{
		memory: memory, env: []string{"LEADER_HTTP_TOKEN=s3cret"},
	}, "serve", "--listen", page.at, "nightly")
	page.answers("/readyz", http.StatusOK)
	page.answers("/livez", http.StatusOK)
	page.answers("/", http.StatusOK) // the page asks for the token
	page.answers("/metrics", http.StatusUnauthorized)
	page.token = "s3cret"
	page.shows(`ringfence_jobs{group="nightly",state="waiting"} 1`,
		`ringfence_jobs_due{group="nightly"} 1`)
	page.accepted()
}

func TestAnAddressThatIsTakenIsSaidBeforeTheElection(t *testing.T) {
	memory := fencetest.NewMemory(longSession)
	s, _ := monitored(t, setup{memory: memory})
	first := shell(t, s, "echo runs=$$; exec sleep 600")
	first.pid("runs")
	second := shell(t, s, "true")
	second.exits(runError)
	if log := second.log.String(); !strings.Contains(log, "LEADER_HTTP_LISTEN") ||
		len(second.queue()) != 1 {
		t.Errorf("%s", log)
	}
	first.signals <- syscall.SIGTERM
	<-first.code
}
