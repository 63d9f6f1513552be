package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/zookeeper"
	"github.com/ringfence/ringfence/internal/settings"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// invoke runs a subcommand to its end and returns what it printed.
func invoke(t *testing.T, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
	defer cancel()
	code = run(ctx, args, env, &out, &errs)
	return code, out.String(), errs.String()
}

// running is a guard that runs in this process.
type running struct {
	t      *testing.T
	env    []string
	pg     string // its address for Postgres clients
	page   string
	stop   context.CancelFunc
	exited chan int
	log    *syncBuffer
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func serving(t *testing.T, env ...string) *running {
	t.Helper()
	return servingAt(t, serverstest.FreeAddresses(t, 1)[0], env...)
}

func servingAt(t *testing.T, address string, env ...string) *running {
	t.Helper()
	r := &running{
		t: t, pg: address, page: serverstest.FreeAddresses(t, 1)[0], exited: make(chan int, 1),
		log: &syncBuffer{},
	}
	r.env = append(env, "GUARD_POSTGRES_LISTEN="+r.pg, "GUARD_HTTP_LISTEN="+r.page,
		"GUARD_DRAIN_TIMEOUT=5s")
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	go func() { r.exited <- run(ctx, []string{"serve"}, r.env, io.Discard, r.log) }()
	t.Cleanup(func() {
		stop()
		<-r.exited
		if t.Failed() {
			t.Log(r.log)
		}
	})
	return r
}

// ready waits until /readyz answers status.
func (r *running) ready(status int) (body string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.t.Context()), 30*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		code, text := r.get(ctx, "/readyz")
		if code == status {
			return text
		}
		body = text
	}
	r.t.Fatalf("/readyz did not become %d: %s\n%s", status, body, r.log)
	return ""
}

func (r *running) get(ctx context.Context, path string) (int, string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.page+path, nil)
	must.Succeed(r.t, err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text)
}

func (r *running) connect(token int) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.t.Context()), time.Minute)
	defer cancel()
	c, err := pgx.Connect(ctx,
		fmt.Sprintf("postgres://app@%s/postgres?options=-c%%20fence.orders%%3D%d", r.pg, token))
	if err == nil {
		r.t.Cleanup(func() { _ = c.Close(context.Background()) })
	}
	return c, err
}

// fresh starts a Postgres server with the guard's role, and returns settings that point at it.
func fresh(t *testing.T) (*servers.Postgres, []string) {
	t.Helper()
	pg := serverstest.Postgres(t, servers.PostgresOptions{})
	pgtest.Exec(t, pg.URL("postgres", "postgres"), "create role guard login; create role app login")
	return pg, []string{
		"GUARD_POSTGRES_UPSTREAM=" + pg.URL("guard", "postgres"),
		"GUARD_POSTGRES_ADMIN=" + pg.URL("postgres", "postgres"),
	}
}

func TestHelpExplainsEverySetting(t *testing.T) {
	code, out, _ := invoke(t, nil, "-h")
	if code != cli.Done {
		t.Fatalf("exit code %d", code)
	}
	listed := regexp.MustCompile(`(?m)^  (GUARD_\w+) \(`).FindAllStringSubmatch(out, -1)
	for _, m := range listed {
		if !regexp.MustCompile(`(?m)^  ` + m[1] + ` \(.*\n      \S`).MatchString(out) {
			t.Errorf("help does not say what %s means", m[1])
		}
	}
	count := len(texts) + len((*upstreams)(nil).Texts())
	for _, p := range protocols {
		count += len(p.fresh().(settings.Described).Texts())
	}
	if got := len(listed); got != count {
		t.Errorf("%d texts for %d settings", count, got)
	}
}

func TestABadStartListsEveryProblem(t *testing.T) {
	code, _, errs := invoke(t, []string{
		"GUARD_POSTGRES_LISTEN=6432", "GUARD_REDIS_LISTEN=:7379", "GUARD_COORDINATOR=nosuch://h/",
		"GUARD_TLS_REQUIRE=true", "GUARD_TLS_CLIENT_AUTH=strict",
		"GUARD_PROXY_NETWORKS=10.0.0.1", "GUARD_POSTGRES_UPSTREAM=postgres://guard:s3cret@h/db",
		"GUARD_LOGIN_TIMEOUT=soon", "GUARD_POSTGRES_LISTNE=:1", "GUARD_RESOURCES=Orders",
		"GUARD_STALE_RECHECK=1h", "GUARD_IDLE_TIMEOUT=-1s",
	}, "serve")
	if code != cli.Usage {
		t.Errorf("exit code %d", code)
	}
	for _, part := range []string{
		"GUARD_POSTGRES_LISTEN", "GUARD_REDIS_UPSTREAM", "nosuch", "GUARD_TLS_CERT",
		"GUARD_TLS_CLIENT_AUTH", "GUARD_PROXY_NETWORKS",
		"GUARD_LOGIN_TIMEOUT", "GUARD_POSTGRES_LISTNE", "Orders", "GUARD_STALE_RECHECK is 1h0m0s",
		"GUARD_IDLE_TIMEOUT is -1s",
	} {
		if !strings.Contains(errs, part) {
			t.Errorf("%q is not in:\n%s", part, errs)
		}
	}
	if strings.Contains(errs, "s3cret") {
		t.Errorf("a secret is in:\n%s", errs)
	}
}

func TestASettingForReadersIsRefusedWithTheirWay(t *testing.T) {
	file := filepath.Join(t.TempDir(), "settings")
	must.Succeed(t, os.WriteFile(file, []byte("GUARD_UNFENCED=read-only\n"), 0o600))
	for _, setting := range []string{
		"GUARD_UNFENCED=read-only", "GUARD_UNFENCED=refuse", "GUARD_UNFENCED=", "GUARD_SETTINGS_FILE=" +
			file,
	} {
		for _, command := range []string{"serve", "install", "status"} {
			code, _, errs := invoke(t, []string{"GUARD_POSTGRES_UPSTREAM=postgres://h/db", setting}, command)
			if code != cli.Usage ||
				!strings.Contains(errs, "readers connect to the database's own address") {
				t.Errorf("%s, %s: exit code %d: %s", setting, command, code, errs)
			}
		}
	}
}

// A file of settings is shared by all commands.
func TestACommandChecksOnlyTheSettingsThatItUses(t *testing.T) {
	all := "serve health status install adopt protect check allow"
	for setting, users := range map[string]string{
		"GUARD_HTTP_TOKEN_FILE=/token":               "serve",
		"GUARD_TLS_REQUIRE=true":                     "serve",
		"GUARD_MAX_LOGINS=many":                      "serve",
		"GUARD_POSTGRES_LISTEN=6432":                 "serve",
		"GUARD_POSTGRES_MAX_DATABASES=0":             "serve",
		"GUARD_RELAY=pipes":                          "serve",
		"GUARD_HTTP_LISTEN=here":                     "serve health",
		"GUARD_RESOURCES=Orders":                     "serve protect",
		"GUARD_COORDINATOR=nosuch://u:s3cret@h":      "serve status install adopt",
		"GUARD_POSTGRES_LEADERS=guard":               "install",
		"GUARD_POSTGRES_UPSTREAM=redis://u:s3cret@h": "serve status install adopt protect check allow",
		"GUARD_LOG=loud":                             all,
		"GUARD_NOSUCH=1":                             all,
		"GUARD_POSTGRES_SERVERS=Big":                 all,
	} {
		for args := range strings.SplitSeq("serve,health,status,install --print,adopt orders,"+
			"protect --resource orders t,check,allow", ",") {
			args := strings.Fields(args)
			code, _, errs := invoke(t, []string{
				"GUARD_POSTGRES_UPSTREAM=postgres://guard@127.0.0.1:1/db", setting,
			}, args...)
			name, _, _ := strings.Cut(setting, "=")
			uses := slices.Contains(strings.Fields(users), args[0])
			refused := strings.Contains(errs, "with the settings") && strings.Contains(errs, name)
			if refused != uses || refused && code != cli.Usage || strings.Contains(errs, "s3cret") {
				t.Errorf("%s, guard %q: exit %d: %s", setting, args, code, errs)
			}
		}
	}
}

func TestUsageMistakesAreExplained(t *testing.T) {
	for _, args := range [][]string{
		{}, {"protect"}, {"adopt"}, {"status", "-o"}, {"status", "[broken"}, {"install", "--pritn"},
	} {
		code, _, errs := invoke(t, []string{"GUARD_POSTGRES_UPSTREAM=postgres://h/db"}, args...)
		want := "`guard --help` says more"
		if len(args) > 0 {
			want = "`guard " + args[0] + " --help` says more"
		}
		if code != cli.Usage || !strings.Contains(errs, want) {
			t.Errorf("guard %v: exit %d, %s", args, code, errs)
		}
	}
}

func TestAGuardBecomesReadyWhenItsStoreDoes(t *testing.T) {
	pg, env := fresh(t)
	r := serving(t, env...)
	if body := r.ready(http.StatusServiceUnavailable); !strings.Contains(body, "guard install") {
		t.Errorf("not installed, but the page says %s", body)
	}
	_, err := r.connect(1)
	wantCode(t, err, "RF005")

	if code, out, errs := invoke(t, env, "install"); code != cli.Done ||
		out != "postgres: installed\n" {
		t.Fatalf("install: %d %s %s", code, out, errs)
	}
	r.ready(http.StatusOK)
	_, err = r.connect(1)
	must.Succeed(t, err)

	must.Succeed(t, pg.Kill())
	r.ready(http.StatusServiceUnavailable)
	_, err = r.connect(2)
	wantCode(t, err, "57P03")
	must.Succeed(t, pg.Start(t.Context()))
	r.ready(http.StatusOK)
	_, err = r.connect(2)
	must.Succeed(t, err)
	_, text := r.get(t.Context(), "/metrics")
	if !strings.Contains(text,
		`ringfence_raises_total{database="postgres",protocol="postgres",resource="orders"} 2`) {
		t.Errorf("metrics:\n%s", text)
	}
}

func TestStatusAndAdopt(t *testing.T) {
	_, env := fresh(t)
	if code, _, errs := invoke(t, env, "status"); code != cli.Error ||
		!strings.Contains(errs, "not every store") {
		t.Errorf("status before install: %d %s", code, errs)
	}
	invoke(t, env, "install")
	r := serving(t, append(env, "GUARD_ISSUER=old")...)
	r.ready(http.StatusOK)
	const token = 9007199254740993 // 2^53 + 1
	old, err := r.connect(token)
	must.Succeed(t, err)
	code, out, _ := invoke(t, env, "status", "-o", "json")
	var all []storeStatus
	if err := json.Unmarshal([]byte(out), &all); err != nil || code != cli.Done ||
		all[0].Marks[0].Token != token || !strings.Contains(out, `"9007199254740993"`) ||
		all[0].Marks[0].Sessions != 1 {
		t.Fatalf("status: %d %v\n%s", code, err, out)
	}

	rebuilt := serving(t, append(env, "GUARD_ISSUER=new")...)
	rebuilt.ready(http.StatusOK)
	_, err = rebuilt.connect(3)
	wantCode(t, err, "RF004")
	code, out, errs := invoke(t, append(env, "GUARD_ISSUER=new"), "adopt", "orders")
	if code != cli.Done || !strings.Contains(out, "9007199254740993") {
		t.Fatalf("adopt: %d %s %s", code, out, errs)
	}
	if err := old.Ping(t.Context()); err == nil {
		t.Error("a session of the old issuer is still open")
	}
	if _, err := rebuilt.connect(3); err != nil {
		t.Error(err)
	}
	_, err = r.connect(token)
	wantCode(t, err, "RF004")
}

// The restored coordinator's leader has a token below the mark.
func TestARestoredCoordinatorNeedsANewIssuer(t *testing.T) {
	_, env := fresh(t)
	invoke(t, env, "install")
	if code, _, errs := invoke(t, env, "adopt", "--new-issuer", "orders"); code != cli.Usage ||
		!strings.Contains(errs, "GUARD_COORDINATOR") {
		t.Errorf("without a coordinator: exit %d: %s", code, errs)
	}
	zk := serverstest.ZooKeeper(t, servers.ZooKeeperOptions{})
	env = append(env, "GUARD_COORDINATOR=zk://"+zk.Addr())
	r := serving(t, env...)
	r.ready(http.StatusOK)
	resign(t, elected(t, zk)) // the election and the issuer are in the backup
	must.Succeed(t, zk.Backup())
	for range 20 {
		resign(t, elected(t, zk))
	}
	_, err := r.connect(int(elected(t, zk).Token()))
	must.Succeed(t, err)
	must.Succeed(t, zk.Restore(t.Context()))
	token := int(elected(t, zk).Token())
	_, err = r.connect(token)
	wantCode(t, err, "RF004")
	if pg, ok := errors.AsType[*pgconn.PgError](err); !ok ||
		!strings.Contains(pg.Hint, "guard adopt --new-issuer orders") {
		t.Errorf("it says %v", err)
	}
	dead := append(slices.Clone(env),
		"GUARD_POSTGRES_UPSTREAM=postgres://guard@"+serverstest.FreeAddresses(t, 1)[0]+"/postgres")
	if code, out, errs := invoke(t, dead, "adopt", "--new-issuer", "orders"); code != cli.Error ||
		out != "" || !strings.Contains(errs, "nothing was changed") {
		t.Errorf("with a store that is down: exit %d: %s%s", code, out, errs)
	}
	if code, out, _ := invoke(t, env, "status"); code != cli.Done || !strings.Contains(out, "the "+
		"coordinator went back") {
		t.Errorf("status: exit %d: %s", code, out)
	}
	if code, out, errs := invoke(t, env, "adopt", "orders"); code != cli.Error ||
		out != "" || !strings.Contains(errs, "guard adopt --new-issuer orders") {
		t.Errorf("under the issuer of old tokens: exit %d: %s%s", code, out, errs)
	}
	code, out, errs := invoke(t, env, "adopt", "--new-issuer", "orders")
	if code != cli.Done || strings.Count(out, "zk:") != 4 {
		t.Fatalf("adopt: %d %s %s", code, out, errs)
	}
	if _, err := r.connect(token); err != nil { // the same guard, which remembers the earlier mark
		t.Error(err)
	}
}

// coordinated installs, starts a ZooKeeper and a guard that asks it, and waits until the guard is
// ready.
func coordinated(t *testing.T, env []string) (*running, *servers.ZooKeeper) {
	t.Helper()
	invoke(t, env, "install")
	zk := serverstest.ZooKeeper(t, servers.ZooKeeperOptions{})
	r := serving(t, append(env, "GUARD_COORDINATOR=zk://"+zk.Addr())...)
	r.ready(http.StatusOK)
	return r, zk
}

// elected returns the term of a leader that lives as long as the test.
func elected(t *testing.T, zk *servers.ZooKeeper) *fence.Term {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	co, err := zookeeper.Open(ctx, "zk://"+zk.Addr(), zookeeper.Options{
		SessionTimeout: 30 * time.Second,
	})
	must.Succeed(t, err)
	t.Cleanup(func() { _ = co.Close() })
	term, err := co.Campaign(ctx, "orders", "a")
	must.Succeed(t, err)
	return term
}

func resign(t *testing.T, term *fence.Term) {
	t.Helper()
	must.Succeed(t, term.Resign(t.Context()))
}

func TestAPoolerInFrontOfPostgresStopsTheStart(t *testing.T) {
	pg, env := fresh(t)
	invoke(t, env, "install")
	bouncer := serverstest.PgBouncer(t, pg, servers.PgBouncerOptions{})
	code, _, errs := invoke(t, []string{
		"GUARD_POSTGRES_LISTEN=127.0.0.1:0",
		"GUARD_POSTGRES_UPSTREAM=" + bouncer.URL("guard", "postgres"),
	}, "serve")
	if code != cli.Error || !strings.Contains(errs, "pooler") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

func TestPreparedTransactionsStopTheStart(t *testing.T) {
	pg := serverstest.Postgres(t, servers.PostgresOptions{
		Settings: map[string]string{"max_prepared_transactions": "1"},
	})
	env := []string{
		"GUARD_POSTGRES_LISTEN=127.0.0.1:0", "GUARD_POSTGRES_UPSTREAM=" + pg.URL("postgres", "postgres"),
	}
	invoke(t, env, "install")
	code, _, errs := invoke(t, env, "serve")
	if code != cli.Error || !strings.Contains(errs, "max_prepared_transactions") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

func TestAShutdownNotifiesIdleSessionsAndEnds(t *testing.T) {
	_, env := fresh(t)
	invoke(t, env, "install")
	r := serving(t, env...)
	r.ready(http.StatusOK)
	c, err := r.connect(1)
	must.Succeed(t, err)
	r.stop()
	for err == nil { // a query that was on its way may still be answered
		_, err = c.Exec(t.Context(), "select 1")
	}
	wantCode(t, err, "57P01")
	code := <-r.exited
	r.exited <- code
	if code != cli.Done {
		t.Errorf("exit code %d", code)
	}
}

func TestWhileTheCoordinatorIsDownTheGuardRunsAndRefuses(t *testing.T) {
	_, env := fresh(t)
	invoke(t, env, "install")
	r := serving(t, append(env, "GUARD_COORDINATOR=zk://"+serverstest.FreeAddresses(t, 1)[0],
		"GUARD_ADMIT_TIMEOUT=1s")...)
	r.ready(http.StatusServiceUnavailable)
	_, err := r.connect(1)
	wantCode(t, err, "RF011")
}

func TestPrintShowsTheWholeInstallation(t *testing.T) {
	code, out, _ := invoke(t, []string{"GUARD_POSTGRES_UPSTREAM=postgres://guard@h/db"}, "install",
		"--print")
	if code != cli.Done ||
		!strings.Contains(out, `set local ringfence._role = E'guard'`) ||
		strings.Contains(out, `\connect`) {
		t.Errorf("%d %s", code, out)
	}
	code, out, _ = invoke(t, []string{"GUARD_POSTGRES_UPSTREAM=postgres://guard@h/db"}, "install",
		"--print", "--databases", "a,b")
	if code != cli.Done || !strings.Contains(out, "\\connect -reuse-previous=on \"dbname='a'\"\n") ||
		strings.Count(out, "commit;") != 2 {
		t.Errorf("%d %s", code, out)
	}
}

func wantCode(t *testing.T, err error, want string) {
	t.Helper()
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != want {
		t.Errorf("got %v, want SQLSTATE %s", err, want)
	}
}
