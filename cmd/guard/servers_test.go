package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// dial connects to a database under a token of orders.
func dial(t *testing.T, address, database string, token int) (*pgx.Conn, error) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), fmt.Sprintf(
		"postgres://app@%s/%s?sslmode=disable&options=-c%%20fence.orders%%3D%d", address, database,
		token))
	if err == nil {
		t.Cleanup(func() { _ = c.Close(t.Context()) })
	}
	return c, err
}

// claimRedis claims a token of orders at a guard of Redis, and returns the answer.
func claimRedis(t *testing.T, address string, token int) string {
	t.Helper()
	c, err := net.Dial("tcp", address)
	must.Succeed(t, err)
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	fmt.Fprintf(c, "CLIENT SETNAME fence.orders.%d\r\n", token)
	answer, err := bufio.NewReader(c).ReadString('\n')
	must.Succeed(t, err)
	return answer
}

// create creates databases.
func create(t *testing.T, pg *servers.Postgres, databases ...string) {
	t.Helper()
	for _, name := range databases {
		execute(t, pg.URL("postgres", "postgres"), "create database "+name)
	}
}

// statusOf runs guard status and returns the token of orders in each store.
func statusOf(t *testing.T, env []string, args ...string) (code int, tokens map[string]string) {
	t.Helper()
	code, out, errs := invoke(t, env, append([]string{"status", "-o", "json"}, args...)...)
	var all []storeStatus
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		t.Fatalf("%v: %s%s", err, out, errs)
	}
	tokens = map[string]string{}
	for _, s := range all {
		tokens[strings.TrimSpace(s.Store+" "+s.Database)] = s.Error
		for _, m := range s.Marks {
			tokens[strings.TrimSpace(s.Store+" "+s.Database)] = m.Token.String()
		}
	}
	return code, tokens
}

func wantTokens(t *testing.T, got map[string]string, want ...string) {
	t.Helper()
	var all []string
	for store, token := range got {
		all = append(all, store+"="+token)
	}
	slices.Sort(all)
	if !slices.Equal(all, want) {
		t.Errorf("got %q, want %q", all, want)
	}
}

func TestOneProcessGuardsSeveralServers(t *testing.T) {
	t.Parallel()
	_, env := fresh(t)
	archive, of := fresh(t)
	rd := serverstest.Redis(t, servers.RedisOptions{})
	cache := serverstest.Redis(t, servers.RedisOptions{})
	at := serverstest.FreeAddresses(t, 3)
	env = append(env, "GUARD_POSTGRES_SERVERS=archive", "GUARD_REDIS_SERVERS=cache",
		strings.Replace(of[0], "POSTGRES_", "POSTGRES_ARCHIVE_", 1),
		strings.Replace(of[1], "POSTGRES_", "POSTGRES_ARCHIVE_", 1),
		"GUARD_POSTGRES_ARCHIVE_LISTEN="+at[0], "GUARD_REDIS_UPSTREAM="+rd.URL(), "GUARD_REDIS_LISTEN="+
			at[1],
		"GUARD_REDIS_CACHE_UPSTREAM="+cache.URL(), "GUARD_REDIS_CACHE_LISTEN="+at[2])
	if code, out, errs := invoke(t, env, "install"); code != cli.Done || out !=
		"postgres, database postgres: installed\npostgres/archive, database postgres: installed\n"+
			"redis: installed\nredis/cache: installed\n" {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	r := serving(t, env...)
	r.ready(http.StatusOK)
	for address, token := range map[string]int{r.pg: 5, at[0]: 9} {
		_, err := dial(t, address, "postgres", token)
		must.Succeed(t, err)
		_, err = dial(t, address, "postgres", token-1)
		wantCode(t, err, "RF001")
	}
	for address, token := range map[string]int{at[1]: 7, at[2]: 11} {
		if answer := claimRedis(t, address, token); answer != "+OK\r\n" {
			t.Fatal(answer)
		}
		if answer := claimRedis(t, address, token-1); !strings.HasPrefix(answer, "-STALETOKEN") {
			t.Errorf("the stale token got %q", answer)
		}
	}
	code, tokens := statusOf(t, env)
	if code != cli.Done {
		t.Errorf("status: exit %d", code)
	}
	wantTokens(t, tokens, "postgres postgres=5", "postgres/archive postgres=9", "redis/cache=11",
		"redis=7")
	_, tokens = statusOf(t, env, "--server", "archive")
	wantTokens(t, tokens, "postgres/archive postgres=9")

	// One server's outage is in /readyz, and the page of another server does not show it.
	must.Succeed(t, archive.Kill())
	if body := r.ready(http.StatusServiceUnavailable); !strings.Contains(body, `"postgres":"ok"`) {
		t.Errorf("/readyz says %s", body)
	}
	for path, want := range map[string]int{
		"/readyz/postgres": 200, "/readyz/redis/cache": 200, "/readyz/postgres/archive": 503,
	} {
		if got, body := r.get(t.Context(), path); got != want {
			t.Errorf("%s: %d %s", path, got, body)
		}
	}
	if _, err := dial(t, r.pg, "postgres", 6); err != nil {
		t.Error(err)
	}
	if code, tokens = statusOf(t, env, "--server", "postgres"); code != cli.Done {
		t.Errorf("status of the server that runs: exit %d, %v", code, tokens)
	}
}

func TestCommandsTakeSeveralDatabases(t *testing.T) {
	t.Parallel()
	pg, env := fresh(t)
	create(t, pg, "shop", "crm", "plain", "closed")
	execute(t, pg.URL("postgres", "postgres"), "revoke connect on database closed from public")
	if code, out, errs := invoke(t, env, "install", "--databases", "shop,crm"); code != cli.Done ||
		out != "postgres, database shop: installed\npostgres, database crm: installed\n" {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	env[0] = strings.Replace(env[0], "/postgres?", "/shop?", 1)
	env[1] = strings.Replace(env[1], "/postgres?", "/shop?", 1)
	r := serving(t, env...)
	r.ready(http.StatusOK)
	for database, token := range map[string]int{"shop": 5, "crm": 9} {
		_, err := dial(t, r.pg, database, token)
		must.Succeed(t, err)
	}
	_, err := dial(t, r.pg, "plain", 5)
	wantCode(t, err, "RF005")
	if code, body := r.get(t.Context(), "/readyz"); code != http.StatusOK ||
		!strings.Contains(body, `"postgres crm":"ok"`) {
		t.Errorf("/readyz: %d %s", code, body)
	}

	code, tokens := statusOf(t, env)
	if code != cli.Done {
		t.Errorf("exit %d", code)
	}
	wantTokens(t, tokens, "postgres crm=9", "postgres shop=5")
	if code, tokens = statusOf(t, env, "--databases", "crm,plain"); code != cli.Error ||
		len(tokens) != 2 ||
		!strings.Contains(tokens["postgres plain"], "not installed") {
		t.Errorf("exit %d, %v", code, tokens)
	}
	_, out, _ := invoke(t, env, "status")
	if !strings.Contains(out, "postgres/crm ") {
		t.Errorf("the table is\n%s", out)
	}

	if code, out, errs := invoke(t, env, "adopt", "orders"); code != cli.Done ||
		!strings.Contains(out, "postgres, database crm: has a mark of orders, too") {
		t.Errorf("adopt: exit %d: %s%s", code, out, errs)
	}
	if _, err := dial(t, r.pg, "shop", 2); err != nil {
		t.Error(err)
	}
	_, err = dial(t, r.pg, "crm", 2)
	wantCode(t, err, "RF001")
	if code, out, errs := invoke(t, env, "adopt", "--all", "orders"); code != cli.Done ||
		strings.Count(out, "\n") != 2 {
		t.Errorf("adopt --all: exit %d: %s%s", code, out, errs)
	}
	if _, err = dial(t, r.pg, "crm", 1); err != nil { // the guard repeats what it has just said of 2
		t.Error(err)
	}

	execute(t, pg.URL("postgres", "crm"), "create table ledger (n int)")
	if code, out, errs := invoke(t, env, "protect", "--database", "crm", "--resource", "orders",
		"ledger"); code != cli.Done {
		t.Errorf("protect: exit %d: %s%s", code, out, errs)
	}
	execute(t, pg.URL("postgres", "crm"), "grant all on ledger to app")
	sealed, err := dial(t, r.pg, "crm", 3)
	must.Succeed(t, err)
	if _, err := sealed.Exec(t.Context(), "insert into ledger values (3)"); err != nil {
		t.Error(err)
	}
	around := pgtest.Connect(t, pg.URL("app", "crm"))
	_, err = around.Exec(t.Context(), "insert into ledger values (3)")
	wantCode(t, err, "RF002")
	if _, out, errs := invoke(t, env, "check", "--databases", "crm"); !strings.Contains(out,
		"database crm; sealed tables: 1") {
		t.Errorf("check: %s%s", out, errs)
	}
	if code, out, errs := invoke(t, env, "unprotect", "--database", "crm",
		"ledger"); code != cli.Done {
		t.Errorf("unprotect: exit %d: %s%s", code, out, errs)
	}
	if code, out, errs := invoke(t, env, "install", "--all"); code != cli.Done ||
		strings.Count(out, "installed") != 5 {
		t.Errorf("install --all: exit %d: %s%s", code, out, errs)
	}
	if _, err := dial(t, r.pg, "plain", 5); err != nil {
		t.Error(err)
	}
}

func TestAListOfDatabasesIsAllThatIsServedAndInstalled(t *testing.T) {
	t.Parallel()
	pg, env := fresh(t)
	create(t, pg, "shop", "crm", "hr")
	env = append(env, "GUARD_POSTGRES_DATABASES=shop,crm") // and not the one of the URL
	if code, out, errs := invoke(t, env, "install"); code != cli.Done ||
		strings.Count(out, "installed") != 2 {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	r := serving(t, env...)
	r.ready(http.StatusOK)
	for _, database := range []string{"shop", "crm"} {
		if _, err := dial(t, r.pg, database, 5); err != nil {
			t.Error(err)
		}
	}
	for _, database := range []string{"hr", "postgres"} {
		_, err := dial(t, r.pg, database, 5)
		wantCode(t, err, "3D000")
	}
	_, tokens := statusOf(t, env)
	wantTokens(t, tokens, "postgres crm=5", "postgres shop=5")
}

func TestProblemsOfSeveralServersAreListedAtOnce(t *testing.T) {
	t.Parallel()
	code, _, errs := invoke(t, []string{
		"GUARD_POSTGRES_SERVERS=archive,Big,max", "GUARD_POSTGRES_ARCHIVE_LISTEN=6432",
		"GUARD_POSTGRES_ARCHIVE_UPSTREAM=redis://guard:s3cret@h/db",
		"GUARD_POSTGRES_ARCHIVE_DATABASES=a, b",
		"GUARD_POSTGRES_ARCHIVE_LISTNE=:1", "GUARD_POSTGRES_OTHER_LISTEN=:1", "GUARD_REDIS_SERVERS=cache",
		"GUARD_REDIS_CACHE_IDLE_TIMEOUT=soon", "GUARD_POSTGRES_MAX_DATABASES=0",
		"GUARD_HTTP_LISTEN=:7379", "GUARD_REDIS_CACHE_LISTEN=:7379",
	}, "serve")
	if code != cli.Usage {
		t.Errorf("exit code %d", code)
	}
	for _, part := range []string{
		`"Big"`, "GUARD_POSTGRES_MAX_DATABASES would be two settings", "GUARD_POSTGRES_ARCHIVE_LISTEN: ",
		`GUARD_POSTGRES_ARCHIVE_UPSTREAM is a URL of scheme "redis"`, `name 2 is " b"`,
		"did you mean GUARD_POSTGRES_ARCHIVE_LISTEN?", "GUARD_POSTGRES_OTHER_LISTEN is not a setting",
		"GUARD_REDIS_CACHE_UPSTREAM is not set", "GUARD_REDIS_CACHE_IDLE_TIMEOUT",
		"GUARD_POSTGRES_MAX_DATABASES is 0", "GUARD_POSTGRES_BIG_UPSTREAM is not set",
		"GUARD_HTTP_LISTEN and GUARD_REDIS_CACHE_LISTEN are both :7379",
	} {
		if !strings.Contains(errs, part) {
			t.Errorf("%q is not in:\n%s", part, errs)
		}
	}
	if strings.Contains(errs, "s3cret") {
		t.Errorf("a secret is in:\n%s", errs)
	}
}

func TestAServerThatIsNamedTwiceIsOneProblem(t *testing.T) {
	t.Parallel()
	_, _, errs := invoke(t, []string{
		"GUARD_REDIS_SERVERS=cache,cache", "GUARD_REDIS_CACHE_UPSTREAM=redis://h",
		"GUARD_REDIS_CACHE_LISTEN=:1",
	}, "serve")
	if !strings.Contains(errs, "1 problem") || !strings.Contains(errs, "GUARD_REDIS_SERVERS names a "+
		"server twice: cache,cache") {
		t.Error(errs)
	}
}

func TestMistakesInTheChoiceOfAStoreAreExplained(t *testing.T) {
	t.Parallel()
	env := []string{
		"GUARD_POSTGRES_UPSTREAM=postgres://h/db", "GUARD_POSTGRES_SERVERS=archive",
		"GUARD_POSTGRES_ARCHIVE_UPSTREAM=postgres://h/db", "GUARD_REDIS_UPSTREAM=redis://h/0",
	}
	for says, args := range map[string][]string{
		"the settings have postgres, postgres/archive, redis": {"status", "--server", "nothing"},
		"say of which server": {"install", "--databases", "a"},
		"[all databases] were all set": {"adopt", "--databases", "a", "--all", "--server", "archive",
			"orders"},
		"only Postgres has databases": {"status", "--server", "redis", "--databases", "a"},
		"only Postgres has tables":    {"protect", "--server", "redis", "--resource", "orders", "t"},
	} {
		code, _, errs := invoke(t, env, args...)
		if code != cli.Usage || !strings.Contains(errs, says) {
			t.Errorf("guard %v: exit %d, %s", args, code, errs)
		}
	}
}
