package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/cmd/leader/internal/stores"
	"github.com/ringfence/ringfence/cmd/leader/internal/supervise"
	"github.com/ringfence/ringfence/cmd/leader/internal/tasks"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/fence/fencetest"
	"github.com/ringfence/ringfence/internal/coordinators"
	"github.com/ringfence/ringfence/internal/test/leadertest"
	"github.com/ringfence/ringfence/internal/test/must"
)

// call runs leader to its end and returns its output.
func call(t *testing.T, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, log strings.Builder
	code = run(t.Context(), args, env, strings.NewReader(""), &out, &log)
	return code, out.String(), log.String()
}

func TestWrongUsageExits2AndShowsTheCorrectUsage(t *testing.T) {
	for _, c := range []struct {
		args string
		want string
	}{
		{"", "a command is missing"},
		{"lead orders", `unknown command "lead"`},
		{"run", "leader run [flags] RESOURCE -- COMMAND"},
		{"run orders", "the command is missing"},
		{"run orders --", "the command is missing"},
		{"run orders psql", "leader run orders -- psql"},
		{"run orders more -- psql", `"more" is one argument too many`},
		{"run -o json orders -- psql", "-o"},
		{"run Orders -- psql", "not a resource name"},
		{"status", "leader status [flags] RESOURCE\n"},
		{"status orders -o yaml", "table or json"},
		{"status orders more", "received 2"},
		{"watch orders -x", "-x"},
		{"resign orders -o json", "-o"},
	} {
		code, out, log := call(t, nil, strings.Fields(c.args)...)
		if code != own(strings.Fields(c.args + " -")[0], cli.Usage) || out != "" ||
			!strings.Contains(log, c.want) {
			t.Errorf("leader %s: code %d, stdout %q, stderr %q", c.args, code, out, log)
		}
	}
}

func TestEveryProblemOfTheSettingsIsListedWithoutSecrets(t *testing.T) {
	env := []string{
		"LEADER_COORDINATOR=nosuch://u:s3cr3t@h", "LEADER_STORES=redis://:s3cr3t@h,nostore://u:s3cr3t@h",
		"LEADER_SESSION_TIMEOUT=10", "LEADER_GRACE=5s", "LEADER_ON_DISCONNECT=shrug", "LEADER_HODLER=me",
		"LEADER_LOG=loud", "LEADER_RAISE_TIMEOUT=-1s", "UNRELATED=1",
	}
	code, out, log := call(t, env, "run", "orders", "--", "true")
	if code != cli.OwnOffset+cli.Usage || out != "" || strings.Contains(log, "s3cr3t") {
		t.Errorf("code %d, stdout %q, stderr:\n%s", code, out, log)
	}
	for _, want := range []string{
		"no coordinator nosuch://", "number 2: there is no store nostore://",
		`LEADER_SESSION_TIMEOUT="10"`,
		"LEADER_GRACE=5s does not fit",
		"pause, continue, stop", "did you mean LEADER_HOLDER?", `LEADER_LOG="loud"`,
		"LEADER_RAISE_TIMEOUT=-1s",
	} {
		if !strings.Contains(log, want) {
			t.Errorf("no %q in:\n%s", want, log)
		}
	}
}

// A file of settings is shared by all commands.
func TestACommandChecksOnlyTheSettingsThatItUses(t *testing.T) {
	const all = "run work agent status watch resign jobs submit serve"
	for setting, users := range map[string]string{
		"LEADER_DRAIN_TIMEOUT=soon":                 "work",
		"LEADER_CARRY=postgres":                     "run agent",
		"LEADER_REDIS=postgres://u:s3cr3t@h":        "work",
		"LEADER_HTTP_LISTEN=9091":                   "run work",
		"LEADER_STORES=nostore://u:s3cr3t@h":        "run work agent",
		"LEADER_LOG=loud":                           all,
		"LEADER_NOSUCH=1":                           all,
		"LEADER_ON_DISCONNECT=shrug":                "run work",
		"LEADER_HOLDER=" + strings.Repeat("h", 201): "run work agent",
	} {
		for _, args := range []string{
			"run orders -- true", "work g", "agent --listen unix:/nowhere/at/all", "status orders",
			"watch orders", "resign orders", "jobs g", "submit g -- true", "serve --listen 0.0.0.0:0",
		} {
			args := strings.Fields(args)
			p := &program{
				electors: coordinators.Table{"mem": func(
					context.Context, string, coordinators.Options,
				) (documents.Coordinator, error) {
					return nil, errors.New("it was opened")
				}}, stores: stores.All, journals: tasks.AllJournals, notify: supervise.Notify,
			}
			var log strings.Builder
			p.Env, p.Stdout, p.Stderr = []string{"LEADER_COORDINATOR=mem://h", setting}, &log, &log
			code := p.run(t.Context(), args)
			name, _, _ := strings.Cut(setting, "=")
			uses := slices.Contains(strings.Fields(users), args[0])
			if refused := strings.Contains(log.String(), name); refused != uses ||
				refused != (code == own(args[0], cli.Usage)) || strings.Contains(log.String(), "s3cr3t") {
				t.Errorf("%s, leader %q: code %d: %s", setting, args, code, &log)
			}
		}
	}
}

func TestCoordinatorIsRequired(t *testing.T) {
	if code, _, log := call(t, nil, "status", "orders"); code != cli.Usage ||
		!strings.Contains(log, "LEADER_COORDINATOR is required") {
		t.Errorf("code %d, stderr %q", code, log)
	}
}

func TestAnUnknownCoordinatorIsAnsweredWithTheKnownOnes(t *testing.T) {
	code, _, log := call(t, []string{"LEADER_COORDINATOR=nosuch://u:s3cr3t@h"}, "status", "orders")
	if code != cli.Usage ||
		!strings.Contains(log, "there is no coordinator nosuch://; there is "+
			coordinators.All.Schemes()[0]+"://, ") ||
		strings.Contains(log, "s3cr3t") {
		t.Errorf("code %d, stderr %q", code, log)
	}
}

func TestErrorsOfTheCoordinatorContainNoSecret(t *testing.T) {
	p := &program{
		Streams: cli.Streams{
			Env: []string{"LEADER_COORDINATOR=mem://u:s3cr3t@h"}, Stdout: leadertest.NewScreen(),
			Stderr: leadertest.NewScreen(),
		}, notify: supervise.Notify,
		electors: coordinators.Table{"mem": func(
			_ context.Context, url string, _ coordinators.Options,
		) (documents.Coordinator, error) {
			return nil, errors.New("cannot parse " + url + ", not with password s3cr3t")
		}},
	}
	if code := p.run(t.Context(), []string{"status", "orders"}); code != cli.Error {
		t.Errorf("code %d", code)
	}
	if log := p.Stderr.(*leadertest.Screen).String(); strings.Contains(log, "s3cr3t") ||
		!strings.Contains(log, "mem://u:xxxxx@h") {
		t.Error(log)
	}
}

func TestHelpMentionsEverySettingSubcommandAndExitCode(t *testing.T) {
	source, err := os.ReadFile("settings.go")
	must.Succeed(t, err)
	names := regexp.MustCompile(`LEADER_[A-Z_]+`).FindAllString(string(source), -1)
	tags := regexp.MustCompile("`env:\"(LEADER_[A-Z_]+)").FindAllStringSubmatch(string(source), -1)
	if len(tags) != len(texts) {
		t.Errorf("%d texts for %d settings", len(texts), len(tags))
	}
	for _, tag := range tags {
		if texts[tag[1]].Meaning == "" {
			t.Errorf("there is no text about %s", tag[1])
		}
	}
	for _, args := range [][]string{
		{"-h"}, {"--help"},
	} {
		code, out, log := call(t, []string{"LEADER_UNKNOWN=1"}, args...)
		if code != cli.Done || log != "" {
			t.Errorf("%v: code %d, stderr %q", args, code, log)
		}
		for _, want := range append(names, "default: 10s", "default: pause", "3    leadership was lost") {
			if !strings.Contains(out, want) {
				t.Errorf("%v: no %q in:\n%s", args, want, out)
			}
		}
	}
	_, out, _ := call(t, nil, "-h")
	for _, c := range (&program{}).rootCommand().Commands() {
		if !strings.Contains(out, "\n  "+c.Name()+" ") {
			t.Errorf("no %s in:\n%s", c.Name(), out)
		}
	}
}

func TestDefaultsFollowTheSessionTimeout(t *testing.T) {
	p := &program{
		Streams:  cli.Streams{Env: []string{"LEADER_COORDINATOR=mem://h", "LEADER_SESSION_TIMEOUT=30s"}},
		electors: coordinators.Table{"mem": nil},
	}
	c, err := p.settings(useStores, useCommands)
	must.Succeed(t, err)
	if host, _ := os.Hostname(); c.Grace.Seconds() != 6 || !strings.HasPrefix(c.Holder, host+":") ||
		c.OnDisconnect != supervise.Pause {
		t.Errorf("got %+v", c)
	}
}

// enrolled returns a coordinator with two candidates, the first of which is ready.
func enrolled(t *testing.T) *fencetest.Memory {
	t.Helper()
	m := fencetest.NewMemory(longSession)
	c := m.Open()
	t.Cleanup(func() { _ = c.Close() })
	term, err := c.Campaign(t.Context(), "orders", "host a:1")
	if err == nil {
		err = term.Acknowledge(t.Context())
	}
	must.Succeed(t, err)
	go func() { _, _ = c.Campaign(t.Context(), "orders", "b:2") }()
	leadertest.Eventually(t, "there are two candidates", func() bool {
		queue, err := c.Candidates(t.Context(), "orders")
		return err == nil && len(queue) == 2
	})
	return m
}

func TestStatusShowsTheLeader(t *testing.T) {
	l := begin(t, setup{memory: enrolled(t)}, "status", "orders")
	l.exits(cli.Done)
	want := "RESOURCE  LEADER      TOKEN  READY  CANDIDATES\n" +
		`orders    "host a:1"  1      yes    2` + "\n"
	if l.out.String() != want {
		t.Errorf("got\n%swant\n%s", l.out, want)
	}
}

func TestStatusAsJSONHasTokensAsStrings(t *testing.T) {
	l := begin(t, setup{memory: enrolled(t)}, "status", "orders", "-o", "json")
	l.exits(cli.Done)
	want := `{"resource":"orders","leader":{"token":"1","holder":"host a:1","ready":true},` +
		`"candidates":[` +
		`{"token":"1","holder":"host a:1","ready":true},` +
		`{"token":"2","holder":"b:2","ready":false}]}` + "\n"
	if got := withoutIDs(l.out.String()); got != want {
		t.Errorf("got  %swant %s", got, want)
	}
}

// withoutIDs removes the identities of candidates, which are random.
func withoutIDs(text string) string {
	return regexp.MustCompile(`"id":"[^"]+",`).ReplaceAllString(text, "")
}

func TestStatusExits1WhenNobodyLeads(t *testing.T) {
	l := begin(t, setup{}, "status", "-o=json", "orders")
	l.exits(cli.Error)
	got, want := l.out.String(), `{"resource":"orders","leader":null,"candidates":[]}`+"\n"
	if got != want {
		t.Errorf("got %swant %s", got, want)
	}
	l = begin(t, setup{}, "status", "orders")
	l.exits(cli.Error)
	if !strings.Contains(l.out.String(), "orders    -       -      -      0") {
		t.Errorf("got %s", l.out)
	}
}

func TestStatusGivesUpOnACoordinatorThatDoesNotAnswer(t *testing.T) {
	m := fencetest.NewMemory(longSession)
	l := begin(t, setup{
		memory: m, env: []string{"LEADER_SESSION_TIMEOUT=50ms", "LEADER_STORES="},
	}, "status", "orders")
	l.client.Cut()
	if code := <-l.code; code != cli.Error { // also if it was queried before the cut: nobody leads
		t.Errorf("code %d", code)
	}
}

func TestWatchPrintsALinePerChangeOfLeadershipUntilInterrupted(t *testing.T) {
	m := fencetest.NewMemory(longSession)
	l := begin(t, setup{memory: m}, "watch", "orders", "-o", "json")
	l.out.Await(t, `"leader":null`)
	c := m.Open()
	defer c.Close()
	term, err := c.Campaign(t.Context(), "orders", "a:1")
	must.Succeed(t, err)
	l.out.Await(t, `"holder":"a:1","ready":false}}`)
	must.Succeed(t, term.Acknowledge(t.Context()))
	l.out.Await(t, `"holder":"a:1","ready":true}}`)
	go func() { _, _ = c.Campaign(t.Context(), "orders", "b:2") }() // no change of leadership
	leadertest.Eventually(t, "there are two candidates", func() bool { return len(l.queue()) == 2 })
	must.Succeed(t, term.Resign(t.Context()))
	l.out.Await(t, `"holder":"b:2","ready":false}}`)
	l.signals <- syscall.SIGINT
	l.exits(cli.Done)
	lines := strings.Split(strings.TrimSpace(l.out.String()), "\n")
	if len(lines) != 4 {
		t.Errorf("want 4 lines, got:\n%s", l.out)
	}
	for _, line := range lines {
		var c change
		if err := json.Unmarshal([]byte(line), &c); err != nil || c.Time.IsZero() ||
			c.Resource != "orders" {
			t.Errorf("%v in %s", err, line)
		}
	}
}

func TestWatchAsText(t *testing.T) {
	l := begin(t, setup{memory: enrolled(t)}, "watch", "orders")
	l.out.Await(t, `Z  token=1  holder="host a:1"  ready=yes`)
	l.memory.Delete("orders", 1)
	l.out.Await(t, "Z  token=2  holder=b:2  ready=no")
	l.memory.Delete("orders", 2)
	l.signals <- syscall.SIGTERM
	l.exits(cli.Done)
}

func TestResignDeposesTheLeader(t *testing.T) {
	m := enrolled(t)
	l := begin(t, setup{memory: m}, "resign", "orders")
	l.exits(cli.Done)
	if got, want := l.out.String(), `orders: "host a:1" with token 1 was deposed`+"\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if q := l.queue(); len(q) != 1 || q[0].Token != 2 {
		t.Errorf("queue %v", q)
	}
}

func TestResignExits1WhenNobodyLeads(t *testing.T) {
	l := begin(t, setup{}, "resign", "orders")
	l.exits(cli.Error)
	if !strings.Contains(l.log.String(), "nobody leads orders") {
		t.Errorf("stderr %q", l.log)
	}
}

func TestTheCommandOfAResignedTermIsStopped(t *testing.T) {
	m := fencetest.NewMemory(longSession)
	running := shell(t, setup{memory: m}, "echo ready; exec sleep 1000")
	running.out.Await(t, "ready")
	begin(t, setup{memory: m}, "resign", "orders").exits(cli.Done)
	running.exits(runLost)
}
