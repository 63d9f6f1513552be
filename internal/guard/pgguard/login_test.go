package pgguard

import (
	"bytes"
	stdsql "database/sql"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/ringfence/ringfence/internal/guard/pgguard/wire"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// loginsHBA gives each user another authentication method.
const loginsHBA = `local all all trust
host all postgres,guard_role,trusted,mover 127.0.0.1/32 trust
host all plain 127.0.0.1/32 password
host all hashed 127.0.0.1/32 md5
host all salted 127.0.0.1/32 scram-sha-256
host replication mover,postgres 127.0.0.1/32 trust
`

func guardForLogins(t *testing.T) *guarded {
	t.Helper()
	pg := serverstest.Postgres(t, servers.PostgresOptions{HBA: loginsHBA})
	database := prepared(t, pg, "postgres")
	pgtest.Exec(t, pg.URL("postgres", database), `set password_encryption = 'md5';
	    create role hashed login password 'secret';
	    set password_encryption = 'scram-sha-256';
	    create role plain login password 'secret'; create role salted login password 'secret';
	    create role trusted login; create role mover login replication;
	    grant all on ledger, ledger_n_seq to public;
	    create schema shop authorization trusted`)
	return guardBefore(t, pg, database, setup{})
}

func TestEveryKindOfLoginIsRelayed(t *testing.T) {
	t.Parallel()
	g := guardForLogins(t)
	for _, user := range []string{"trusted", "plain", "hashed", "salted"} {
		t.Run("pgx as "+user, func(t *testing.T) {
			c, err := g.dialURL(g.url(user+":secret", 5))
			must.Succeed(t, err)
			g.exec(c, "insert into ledger (token) values (5)")
		})
		t.Run("database/sql as "+user, func(t *testing.T) {
			db, err := stdsql.Open("pgx", g.url(user+":secret", 5))
			must.Succeed(t, err)
			defer db.Close()
			if _, err := db.ExecContext(t.Context(),
				"insert into ledger (token) values (5)"); err != nil {
				t.Fatal(err)
			}
		})
		t.Run("psql as "+user, func(t *testing.T) {
			if out := g.program(t, user, "psql", "-Atc",
				"select current_setting('fence.orders')"); out != "5\n" {
				t.Errorf("got %q", out)
			}
		})
		if user == "trusted" {
			continue
		}
		t.Run("a wrong password as "+user, func(t *testing.T) {
			_, err := g.dialURL(g.url(user+":wrong", 9))
			wantCode(t, err, "28P01")
		})
	}
	if n := g.markOf("orders"); n != 5 {
		t.Errorf("the mark is %d: a failed login has raised it", n)
	}
	t.Run("programs", func(t *testing.T) { g.programs(t) })
	t.Run("replication", func(t *testing.T) { g.replication(t) })
	t.Run("interrupt", func(t *testing.T) { g.interrupt(t) })
	t.Run("vanishing", func(t *testing.T) { g.vanishing(t) })
}

// program runs a client program through the guard, with the token in PGOPTIONS.
func (g *guarded) program(t *testing.T, user, name string, args ...string) string {
	t.Helper()
	out, err := g.command(t, user, name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
	return string(out)
}

func (g *guarded) command(t *testing.T, user, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), name, args...)
	host, port, _ := net.SplitHostPort(g.Addr)
	cmd.Env = append(cmd.Environ(), "PGHOST="+host, "PGPORT="+port, "PGUSER="+user,
		"PGPASSWORD=secret",
		"PGDATABASE="+g.database, "PGOPTIONS=-c fence.orders=5", "PGSSLMODE=prefer")
	return cmd
}

func (g *guarded) programs(t *testing.T) {
	dir := t.TempDir()
	items := filepath.Join(dir, "items")
	out := g.program(t, "trusted", "psql", "-v", "ON_ERROR_STOP=1", "-Atc",
		`create table shop.item (n int); insert into shop.item select generate_series(1, 1000)`,
		"-c", `\copy shop.item to `+items, "-c", `\copy shop.item from `+items,
		"-c", "select count(*) from shop.item")
	if !strings.HasSuffix(out, "\n2000\n") {
		t.Errorf("psql: %q", out)
	}
	serverstest.NotOlder(t, g.pg, "pg_dump")
	dump := filepath.Join(dir, "dump")
	g.program(t, "trusted", "pg_dump", "-Fc", "-n", "shop", "-f", dump)
	g.program(t, "trusted", "psql", "-c", "drop table shop.item")
	g.program(t, "trusted", "pg_restore", "-d", g.database, "-t", "item", "-j", "2", dump)
	if n := g.count("select count(*) from shop.item"); n != 2000 {
		t.Errorf("%d items after dump and restore", n)
	}
	out = g.program(t, "trusted", "pg_dumpall", "--globals-only", "--no-role-passwords")
	if !strings.Contains(out, "CREATE ROLE salted") {
		t.Errorf("pg_dumpall: %q", out)
	}
	g.program(t, "trusted", "psql", "-c", "alter role trusted set search_path = shop")
	g.program(t, "trusted", "pgbench", "-i", "-q", "-s", "1")
	for _, mode := range []string{"simple", "extended", "prepared"} {
		out := g.program(t, "trusted", "pgbench", "-n", "-c", "4", "-t", "25", "-M", mode)
		if !strings.Contains(out, "actually processed: 100/100") {
			t.Errorf("pgbench -M %s: %s", mode, out)
		}
	}
}

// interrupt sends ^C to psql, which sends a cancel request on a separate connection.
func (g *guarded) interrupt(t *testing.T) {
	cmd := g.command(t, "trusted", "psql", "-c", "select pg_sleep(60)", "-c", "select 'and on'")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	must.Succeed(t, cmd.Start())
	const sleeping = "select count(*) from pg_stat_activity " +
		"where query = 'select pg_sleep(60)' and state = 'active'"
	g.until(sleeping, 1)
	_ = cmd.Process.Signal(os.Interrupt)
	_ = cmd.Wait()
	g.until(sleeping, 0)
	if !strings.Contains(out.String(), "canceling statement due to user request") {
		t.Errorf("psql printed %s", &out)
	}
}

func (g *guarded) replication(t *testing.T) {
	for _, kind := range []string{"database", "true"} {
		cfg, err := pgconn.ParseConfig(g.url("mover", 5))
		must.Succeed(t, err)
		cfg.RuntimeParams["replication"] = kind
		c, err := pgconn.ConnectConfig(t.Context(), cfg)
		if err != nil {
			t.Fatalf("replication=%s: %v", kind, err)
		}
		if r, err := c.Exec(t.Context(), "IDENTIFY_SYSTEM").ReadAll(); err != nil || len(r) != 1 ||
			len(r[0].Rows) != 1 {
			t.Errorf("replication=%s: %v, %v", kind, r, err)
		}
		_ = c.Close(t.Context())
		cfg.User = "postgres"
		_, err = pgconn.ConnectConfig(t.Context(), cfg)
		wantCode(t, err, "RF010") // the guard's role is no superuser, and could not end it
	}
	cfg, err := pgconn.ParseConfig(g.withOptions("mover", "-c fence.stock=5"))
	must.Succeed(t, err)
	cfg.RuntimeParams["replication"] = "database"
	old, err := pgconn.ConnectConfig(t.Context(), cfg)
	must.Succeed(t, err)
	defer old.Close(t.Context())
	_, err = g.dialURL(g.withOptions("trusted", "-c fence.stock=7"))
	must.Succeed(t, err)
	_, err = old.Exec(t.Context(), "IDENTIFY_SYSTEM").ReadAll()
	wantCode(t, err, "RF001")
	serverstest.NotOlder(t, g.pg, "pg_basebackup")
	dir := filepath.Join(t.TempDir(), "copy")
	g.program(t, "mover", "pg_basebackup", "-D", dir, "-X", "stream", "-c", "fast",
		"--no-sync", "--no-slot")
	if found, _ := filepath.Glob(filepath.Join(dir, "PG_VERSION")); len(found) != 1 {
		t.Error("pg_basebackup left no PG_VERSION")
	}
}

// vanishing closes connections at every phase of the login. Nothing of these clients may remain at
// the server; TestMain checks for goroutines that they leave behind.
func (g *guarded) vanishing(t *testing.T) {
	packet := startupOf(0, "user", "salted", "database", g.database, "options", "-c fence.orders=5")
	for name, sent := range map[string][][]byte{
		"at once":                   nil,
		"in the first packet":       {packet[:20]},
		"after the request for SSL": {request(wire.SSLRequest)},
		"at the password request":   {packet},
		"in the password message": {packet,
			encode('p', "SCRAM-SHA-256\x00\x00\x00\x00\x20n,,n=,r=0123456789abcdefghijklmn")[:10]},
		"with a goodbye instead of a password": {packet, encode('X')},
		"with a query instead of a password":   {packet, encode('Q', "select 1\x00")},
	} {
		w := dialWire(t, g.Addr)
		for i, part := range sent {
			w.send(part)
			if i == 0 && len(part) == len(packet) {
				w.until("R")
			}
		}
		if name == "with a query instead of a password" {
			if e := w.until("E").error(t); e.Code != wire.ProtocolViolation {
				t.Errorf("%s: %+v", name, e)
			}
		}
		_ = w.Close()
	}
	g.until("select count(*) from pg_stat_activity where usename = 'salted' and state is null", 0)
	w := dialWire(t, g.Addr)
	w.login("user", "trusted", "database", g.database, "options", "-c fence.orders=5")
	w.query("select pg_sleep(0.2)")
	_ = w.Close() // in the middle of a query, which may finish before its session ends
	g.until("select count(*) from pg_stat_activity where usename = 'trusted' "+
		"and query like '%pg_sleep%'", 0)
}

func TestAGuardDoesNotWaitForeverForAServerThatDoesNotAnswerALogin(t *testing.T) {
	t.Parallel()
	mute := startMuteServer(t)
	control := "postgres://guard_role@" + mute.Addr().String() + "/postgres"
	pg := serverstest.SharedPostgres(t)

	g := guardBefore(t, pg, "postgres", setup{
		control: control, Options: Options{LoginTimeout: 3 * time.Second},
	})
	_, err := g.dial(5)
	if err == nil || !strings.Contains(err.Error(), "not finished within 3s") {
		t.Errorf("got %v", err)
	}

	slow := guardBefore(t, pg, "postgres", setup{control: control, drain: time.Minute})
	silent, w, told := dialWire(t, slow.Addr), dialWire(t, slow.Addr), dialWire(t, slow.Addr)
	silent.send(request(wire.SSLRequest)) // its answer shows that the guard has begun with this client
	if no, err := silent.r.ReadByte(); err != nil || no != 'N' {
		t.Fatalf("the answer to the request for SSL is %q, %v", no, err)
	}
	w.send(startupOf(0, "user", "w", "options", "-c fence.orders=5"))
	mute.login("w")
	told.send(startupOf(0, "user", "told", "options", "-c fence.orders=5"))
	server := mute.login("told")
	// more than the guard's buffer for a login
	long := encode('S', "name\x00"+strings.Repeat("x", 3000)+"\x00")
	_, err = server.Write(slices.Concat(encode('R', "\x00\x00\x00\x00"), long, long))
	must.Succeed(t, err)
	told.until("S")
	begin := time.Now()
	slow.Stop()
	if d := time.Since(begin); d > 20*time.Second {
		t.Errorf("the guard took %v to stop, though a login has no open transaction", d)
	}
	for _, w := range []*rawClient{silent, w, told} {
		if e := w.until("E").error(t); e.Code != wire.CannotConnectNow {
			t.Errorf("the client got %+v", e)
		}
	}
}

// muteServer reads startup packets and answers nothing.
type muteServer struct {
	net.Listener
	t      *testing.T
	logins chan muteLogin
}

type muteLogin struct {
	user string
	net.Conn
}

func startMuteServer(t *testing.T) *muteServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	m := &muteServer{l, t, make(chan muteLogin, 100)}
	var accepting sync.WaitGroup
	accepting.Go(m.accept)
	t.Cleanup(func() {
		_ = l.Close()
		accepting.Wait()
	})
	return m
}

// accept keeps the connections open until the listener is closed.
func (m *muteServer) accept() {
	for {
		c, err := m.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		if s, err := wire.NewGreeting(c, c).Read(); err == nil && s.Get("user") != "guard_role" {
			m.logins <- muteLogin{s.Get("user"), c}
		}
	}
}

// login waits for the connection of a user.
func (m *muteServer) login(user string) net.Conn {
	m.t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		select {
		case l := <-m.logins:
			if l.user == user {
				return l.Conn
			}
		case <-deadline:
			m.t.Fatalf("no connection of %s has come", user)
		}
	}
}

// Where the server keeps no statements, the guard cannot see its own on the client's connection.
func TestASessionIsIdentifiedWithoutTrackedActivities(t *testing.T) {
	t.Parallel()
	g := fenced(t)
	pgtest.Exec(t, g.pg.URL("postgres", g.database),
		"alter database "+g.database+" set track_activities = off")
	c := g.open(5)
	g.exec(c, "insert into ledger (token) values (5)")
	if n := g.count("select count(*) from ringfence_private.session where pid = " +
		strconv.Itoa(int(c.PgConn().PID()))); n != 1 {
		t.Errorf("%d records of the session", n)
	}
	newer := g.open(7)
	if err := c.Ping(t.Context()); err == nil {
		t.Error("the older session is still alive")
	}
	g.exec(newer, "insert into ledger (token) values (7)")
}
