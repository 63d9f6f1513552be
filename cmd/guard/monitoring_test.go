package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/cmd/internal/metrics"
	"github.com/ringfence/ringfence/cmd/internal/webpage"
	"github.com/ringfence/ringfence/fence/fencetest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/jobs/queueview"
)

const monitoring = "../../docs/monitoring"

// alert is one rule of alerts.yaml.
type alert struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

// alerts reads the rules. It fails on a key that Prometheus does not know.
func alerts(t *testing.T) (all []alert) {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string  `yaml:"name"`
			Rules []alert `yaml:"rules"`
		} `yaml:"groups"`
	}
	decoder := yaml.NewDecoder(strings.NewReader(text(t, monitoring+"/alerts.yaml")))
	decoder.KnownFields(true)
	must.Succeed(t, decoder.Decode(&file))
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// queries returns the queries of the dashboard by the titles of their panels.
func queries(t *testing.T) map[string][]string {
	t.Helper()
	var dashboard struct {
		Panels []struct {
			ID      int
			Title   string
			Type    string
			GridPos struct{ H, W, X, Y int }
			Targets []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Name, Definition string }
		}
	}
	must.Succeed(t, json.Unmarshal([]byte(text(t, monitoring+"/dashboard.json")), &dashboard))
	all := map[string][]string{}
	ids := map[int]bool{}
	for _, p := range dashboard.Panels {
		if ids[p.ID] || p.GridPos.X+p.GridPos.W > 24 || p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %d, %q: its number is not its own, it is too wide, or it shows nothing",
				p.ID, p.Title)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			all[p.Title] = append(all[p.Title], target.Expr)
		}
	}
	for _, v := range dashboard.Templating.List {
		if v.Definition != "" { // the variable for the data source has none
			all["variable "+v.Name] = []string{v.Definition}
		}
	}
	return all
}

func text(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	must.Succeed(t, err)
	return string(b)
}

// exposition returns the metrics of a running guard that has admitted, refused and ended sessions:
// the values of each label of each metric.
func exposition(t *testing.T) map[string]map[string][]string {
	t.Helper()
	_, env := fresh(t)
	invoke(t, env, "install")
	shown := serverstest.NewAuthority(t).Issue("guard")
	r := serving(t, append(env, "GUARD_TLS_CERT="+shown.CertFile, "GUARD_TLS_KEY="+shown.KeyFile)...)
	r.ready(http.StatusOK)
	for _, token := range []int{5, 9} {
		_, err := r.connect(token)
		must.Succeed(t, err)
	}
	_, err := r.connect(5)
	wantCode(t, err, "RF001")
	_, page := r.get(t.Context(), "/metrics")
	page += electing(t) + leaders(t)
	all := map[string]map[string][]string{"up": {"job": {"ringfence"}}}
	for _, s := range series.FindAllStringSubmatch(page, -1) {
		if all[s[1]] == nil {
			all[s[1]] = map[string][]string{}
		}
		for _, l := range matcher.FindAllStringSubmatch(s[2], -1) {
			all[s[1]][l[1]] = append(all[s[1]][l[1]], l[3])
		}
	}
	return all
}

// electing returns the metrics of a guard that has admitted the leader of an election.
func electing(t *testing.T) string {
	t.Helper()
	_, env := fresh(t)
	r, zk := coordinated(t, env)
	term := elected(t, zk)
	_, err := r.connect(int(term.Token()))
	must.Succeed(t, err)
	awaitMetrics(t, r, "ringfence_coordinator_ready 1", `ringfence_resource_led{resource="orders"} 1`)
	_, page := r.get(t.Context(), "/metrics")
	resign(t, term)
	awaitMetrics(t, r, `ringfence_resource_led{resource="orders"} 0`)
	return page
}

// leaders returns the metrics of the program leader.
func leaders(t *testing.T) string {
	t.Helper()
	c := fencetest.NewMemory(time.Minute).Open()
	defer c.Close()
	q, err := queueview.New(c, "nightly")
	must.Succeed(t, err)
	m := metrics.New(c, func(text string) string { return text })
	m.Watch(c, "orders")
	m.Worker(&jobs.Worker{Queue: q.Queue})
	m.Group(q, "")
	w := httptest.NewRecorder()
	m.Handler(webpage.Access{}, t.Context()).ServeHTTP(w,
		httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

var (
	// series is a line of /metrics, or a metric in a query: name, labels.
	series = regexp.MustCompile(`(?m)\b((?:ringfence|process|go)_\w+|up)\b(?:\{([^}]*)\})?`)
	// matcher is one label with its value.
	matcher = regexp.MustCompile(`(\w+)(=~|!=|=)"([^"]*)"`)
)

// Prometheus adds these.
var added = []string{"job", "instance"}

func TestAlertsAndDashboardNameMetricsThatAGuardHas(t *testing.T) {
	t.Parallel()
	have := exposition(t)
	all := queries(t)
	for _, a := range alerts(t) {
		all[a.Alert] = []string{a.Expr}
	}
	for where, exprs := range all {
		for _, expr := range exprs {
			for _, problem := range problems(expr, have) {
				t.Errorf("%s: %s", where, problem)
			}
		}
	}
	for _, wrong := range []string{
		`rate(ringfence_nothing_total[5m])`, `ringfence_sessions{holder="a"}`,
		`ringfence_refusals_total{reason="stle"}`, `ringfence_leader_terms_ended_total{cause="expird"}`,
		`ringfence_refusals_total{reason=~"stale|stle"}`,
	} {
		if len(problems(wrong, have)) != 1 {
			t.Errorf("this test sees nothing wrong in %s", wrong)
		}
	}
}

// problems says what a query names that a guard does not have: a metric, a label, or a value of a
// label whose values are known from the start.
func problems(expr string, have map[string]map[string][]string) (all []string) {
	found := series.FindAllStringSubmatch(expr, -1)
	if len(found) == 0 {
		all = append(all, "no metric in "+expr)
	}
	for _, s := range found {
		labels, ok := have[s[1]]
		if !ok {
			all = append(all, "there is no metric "+s[1])
			continue
		}
		for _, l := range matcher.FindAllStringSubmatch(s[2], -1) {
			name, values := l[1], strings.Split(l[3], "|")
			switch known := labels[name]; {
			case slices.Contains(added, name) || strings.HasPrefix(l[3], "$"):
			case len(known) == 0:
				all = append(all, fmt.Sprintf("%s has no label %s", s[1], name))
			case slices.Contains([]string{"reason", "state", "result", "cause", "outcome"}, name):
				for _, v := range values {
					if !slices.Contains(known, v) {
						all = append(all, fmt.Sprintf("%s has no %s %q", s[1], name, v))
					}
				}
			}
		}
	}
	return all
}

func TestEveryAlertSaysWhatItIsAndWhatToDo(t *testing.T) {
	t.Parallel()
	guide := text(t, "../../docs/monitoring.md")
	all := alerts(t)
	if len(all) < 10 {
		t.Fatalf("only %d alerts were found", len(all))
	}
	for _, a := range all {
		anchor := "docs/monitoring.md#" + strings.ToLower(a.Alert)
		if a.Annotations["summary"] == "" || a.Labels["severity"] == "" ||
			!strings.HasSuffix(a.Annotations["runbook_url"], anchor) {
			t.Errorf("%s has no summary, severity or runbook: %+v", a.Alert, a)
		}
		if !strings.Contains(guide, "\n### "+a.Alert+"\n") {
			t.Errorf("docs/monitoring.md has no section %s", a.Alert)
		}
	}
}

// asRules writes the queries of the dashboard as a file of rules, and returns its path.
func asRules(t *testing.T) string {
	t.Helper()
	var rules []map[string]string
	for title, exprs := range queries(t) {
		if strings.HasPrefix(title, "variable ") {
			continue // label_values is Grafana's
		}
		for _, expr := range exprs {
			rules = append(rules, map[string]string{
				"record": fmt.Sprintf("panel:%d", len(rules)),
				"expr":   strings.ReplaceAll(expr, "$__rate_interval", "5m"),
			})
		}
	}
	group := map[string]any{"name": "dashboard", "rules": rules}
	b, err := yaml.Marshal(map[string]any{"groups": []any{group}})
	must.Succeed(t, err)
	file := filepath.Join(t.TempDir(), "dashboard.yaml")
	must.Succeed(t, os.WriteFile(file, b, 0o600))
	return file
}

// promtool is Prometheus's own parser. The Debian package prometheus has it; make test-drivers
// installs and demands it.
func TestPromtoolAcceptsTheAlertsAndTheMetrics(t *testing.T) {
	t.Parallel()
	promtool, err := exec.LookPath("promtool")
	if err != nil && os.Getenv("RINGFENCE_DRIVERS") == "required" {
		t.Fatal("there is no promtool on PATH: make deps-drivers")
	}
	if err != nil {
		t.Skip("there is no promtool on PATH")
	}
	for _, args := range [][]string{
		{"check", "rules", monitoring + "/alerts.yaml"},
		{"check", "rules", asRules(t)},
		{"test", "rules", monitoring + "/alerts_test.yaml"},
	} {
		if out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
	_, env := fresh(t)
	if code, _, errs := invoke(t, env, "install"); code != cli.Done {
		t.Fatal(errs)
	}
	r := serving(t, env...)
	r.ready(http.StatusOK)
	_, err = r.connect(5)
	must.Succeed(t, err)
	_, page := r.get(t.Context(), "/metrics")
	check := exec.CommandContext(t.Context(), promtool, "check", "metrics")
	check.Stdin = strings.NewReader(page)
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}
