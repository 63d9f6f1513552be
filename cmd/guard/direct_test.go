package main

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// Direct connections as docs/postgres.md and docs/redis.md describe them: the tests run the lines
// of those pages.

const guardHost = "127.0.0.2" // from where the server sees guards; everybody else is at 127.0.0.1

// typed returns the lines of code on a page that begin with one of these words.
func typed(t *testing.T, page string, words ...string) (found []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/" + page)
	must.Succeed(t, err)
	for i, block := range strings.Split(string(text), "```\n") {
		for line := range strings.Lines(block) {
			if i%2 == 1 && slices.ContainsFunc(words, func(w string) bool {
				return strings.HasPrefix(line, w)
			}) {
				found = append(found, strings.ReplaceAll(line, "…", "secret"))
			}
		}
	}
	if len(found) < len(words) {
		t.Fatalf("%s has only %q", page, found)
	}
	return found
}

// shop is a server with the pg_hba.conf and the roles of the page, before a guard.
type shop struct {
	*running
	server *servers.Postgres
}

func newShop(t *testing.T) *shop {
	hba := strings.NewReplacer("10.0.1.0/28", guardHost+"/32", "10.0.0.0/16", "127.0.0.1/32", "peer",
		"trust").
		Replace(strings.Join(typed(t, "postgres.md", "local", "host"), ""))
	s := &shop{server: serverstest.Postgres(t, servers.PostgresOptions{HBA: hba})}
	admin := func(database string) string {
		return "postgres:///" + database + "?user=postgres&host=" + s.server.SocketDir() + "&port=" +
			s.port(t)
	}
	version := 0
	c, err := pgx.Connect(t.Context(), admin("postgres"))
	must.Succeed(t, err)
	defer c.Close(t.Context())
	if err = c.QueryRow(t.Context(),
		"select current_setting('server_version_num')::integer").Scan(&version); err != nil {
		t.Fatal(err)
	}
	if version < 140000 {
		t.Skip("it has no pg_read_all_data")
	}
	for _, name := range []string{"guard", "app", "owner"} {
		execute(t, admin("postgres"), "create role "+name+" login password 'secret'")
	}
	execute(t, admin("postgres"), "create database shop owner owner")
	execute(t, admin("shop"), "revoke create on schema public from public; grant create on schema "+
		"public to owner; set role owner; create table orders (n integer); insert into orders values "+
		"(1); grant all on orders to app")
	execute(t, admin("shop"),
		strings.Join(typed(t, "postgres.md", "CREATE ROLE", "GRANT", "ALTER"), ""))

	relay := serverstest.NewRelayWith(t, s.server.Addr(), servers.RelayOptions{From: guardHost})
	env := []string{
		"GUARD_POSTGRES_UPSTREAM=postgres://guard:secret@" + relay.Addr() + "/shop",
		"GUARD_POSTGRES_ADMIN=" + admin("shop"),
	}
	if code, _, errs := invoke(t, env, "install"); code != cli.Done {
		t.Fatal(errs)
	}
	s.running = serving(t, env...)
	s.ready(200)
	return s
}

func (s *shop) port(t *testing.T) string {
	t.Helper()
	u, err := url.Parse(s.server.URL("postgres", "shop"))
	must.Succeed(t, err)
	return u.Port()
}

// url is the server's own address, for a role.
func (s *shop) url(role string) string {
	return "postgres://" + role + ":secret@" + s.server.Addr() + "/shop?sslmode=disable"
}

// do connects as a role and runs a statement.
func do(t *testing.T, address, role, database, options, statement string) error {
	t.Helper()
	o, err := pgx.ParseConfig("postgres://" + role + ":secret@" + address + "/" + database +
		"?sslmode=disable")
	must.Succeed(t, err)
	o.RuntimeParams["options"] = options
	c, err := pgx.ConnectConfig(t.Context(), o)
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(t.Context()))
	_, err = c.PgConn().Exec(t.Context(), statement).ReadAll()
	return err
}

const insertOrder = "insert into orders values (2)"

func TestOnlyARoleThatMayNotWriteConnectsDirectlyToPostgres(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	const noLine, denied = "28000", "42501"
	for _, test := range []struct {
		at, role, database, options, statement, code string
	}{
		{s.pg, "app", "shop", "-c fence.orders=5", insertOrder, ""},
		{s.pg, "app", "shop", "", "select 1", "RF002"},
		{s.pg, "reader", "shop", "", "select 1", "RF002"},
		{s.pg, "owner", "shop", "-c fence.orders=5", "create table items (n integer)", ""}, // a migration
		{s.server.Addr(), "app", "shop", "", insertOrder, noLine},
		{s.server.Addr(), "app", "postgres", "", "select 1", noLine},
		{s.server.Addr(), "owner", "shop", "", insertOrder, noLine},
		{s.server.Addr(), "guard", "shop", "", insertOrder, noLine},
		{s.server.Addr(), "postgres", "shop", "", insertOrder, noLine},
		{s.server.Addr(), "reader", "shop", "", "select n from orders; select n from items", ""},
		{s.server.Addr(), "reader", "shop", "", insertOrder, denied},
		{s.server.Addr(), "reader", "shop", "", "set default_transaction_read_only = off; delete from " +
			"orders", denied},
		{s.server.Addr(), "reader", "shop", "", "create table mine ()", denied},
		{s.server.Addr(), "reader", "shop", "", "set role app", denied},
		{s.server.Addr(), "reader", "shop", "", "update ringfence_private.mark set token = 9", denied},
		{s.server.Addr(), "reader", "postgres", "", "select 1", noLine},
		{s.server.Addr(), "backup", "shop", "", "begin; lock table orders in access share mode; table " +
			"orders", ""},
		{s.server.Addr(), "backup", "shop", "", insertOrder, denied},
		{s.server.Addr(), "backup", "shop", "", "update ringfence_private.mark set token = 9", denied},
		{s.server.Addr(), "monitor", "postgres", "", "select count(query) from pg_stat_activity", ""},
		{s.server.Addr(), "monitor", "shop", "", "table orders", denied},
	} {
		err := do(t, test.at, test.role, test.database, test.options, test.statement)
		if test.code != "" {
			wantCode(t, err, test.code)
		} else if err != nil {
			t.Errorf("%s at %s, %s: %v", test.role, test.at, test.statement, err)
		}
		if t.Failed() {
			t.Fatalf("%+v", test)
		}
	}
}

// A dump takes a share lock on every table that it reads, also on those of the guard, and keeps it
// to its end.
func TestADumpDelaysNoTakeover(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	out, err := exec.CommandContext(t.Context(), "pg_dump", "-d", s.url("backup")).CombinedOutput()
	if strings.Contains(string(out), "server version mismatch") {
		t.Skipf("%s", out)
	}
	for _, table := range []string{"public.orders", "ringfence_private.mark",
		"ringfence_private.entered"} {
		if err != nil || !strings.Contains(string(out), "COPY "+table) {
			t.Fatalf("%v: %s", err, out)
		}
	}
	running := pgtest.Connect(t, s.url("backup"))
	const locks = `begin isolation level repeatable read read only;
		do $$ declare r regclass; begin
		    for r in select oid from pg_class where relkind = 'r' and relnamespace in ('ringfence'::regnamespace, 'public'::regnamespace) loop
		        execute format('lock table %s in access share mode', r);
		    end loop;
		end $$`
	_, err = running.PgConn().Exec(t.Context(), locks).ReadAll()
	must.Succeed(t, err)
	for _, token := range []string{"5", "7"} {
		if err := do(t, s.pg, "app", "shop", "-c fence.orders="+token, insertOrder); err != nil {
			t.Errorf("token %s: %v", token, err)
		}
	}
	wantCode(t, do(t, s.pg, "app", "shop", "-c fence.orders=5", insertOrder), "RF001")
}

func TestOnlyAUserThatMayNotWriteConnectsDirectlyToRedis(t *testing.T) {
	t.Parallel()
	server := serverstest.Redis(t, servers.RedisOptions{})
	db := client(t, server.URL())
	must.Succeed(t, db.Set(t.Context(), "stock", 1, 0).Err())
	for _, line := range typed(t, "redis.md", "ACL SETUSER reader", "ACL SETUSER monitor", "ACL "+
		"SETUSER backup") {
		words := strings.Fields(line)
		if err := db.Do(t.Context(), anys(words)...).Err(); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	for command, users := range map[string]string{
		"GET stock": "reader", "EXISTS stock": "reader", "PING": "reader monitor backup",
		"INFO server": "monitor",
		"SET stock 2": "", "DEL stock": "", "EXPIRE stock 9": "", "FLUSHALL": "", "PUBLISH news 1": "",
		"EVAL return 0": "", "EVAL_RO return 0": "", "CONFIG GET save": "", "CLIENT KILL TYPE normal": "",
		"GETEX stock EX 9": "", "SORT stock STORE a": "", "KEYS *": "", "SWAPDB 0 1": "",
		"FUNCTION FLUSH": "",
		"SCRIPT FLUSH":   "", "REPLICAOF NO ONE": "", "RESTORE a 0 x": "",
	} {
		for _, user := range []string{"reader", "monitor", "backup"} {
			u, err := url.Parse(server.URL())
			must.Succeed(t, err)
			u.User = url.UserPassword(user, "secret")
			err = client(t, u.String()).Do(t.Context(), anys(strings.Fields(command))...).Err()
			refused := err != nil && strings.HasPrefix(err.Error(), "NOPERM")
			if may := slices.Contains(strings.Fields(users), user); may && err != nil || !may && !refused {
				t.Errorf("%s by %s: %v", command, user, err)
			}
		}
	}
}

func client(t *testing.T, url string) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(url)
	must.Succeed(t, err)
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func anys(words []string) (all []any) {
	for _, w := range words {
		all = append(all, w)
	}
	return all
}
