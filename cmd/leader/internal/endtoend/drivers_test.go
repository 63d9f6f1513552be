package endtoend

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// TestDriversOverTLS runs what people use through a guard that requires TLS, before servers that
// require TLS. Everybody checks the certificate that he sees, and passwords are checked by SCRAM,
// with the channel binding that is each driver's default.
//
// A program in testdata/drivers opens a session under the token 5, writes three entries and says
// so. When it gets a line, a newer leader has been admitted. Then it writes in its session, opens
// another one, and says what it was told.
func TestDriversOverTLS(t *testing.T) {
	t.Parallel()
	e := newEncrypted(t)
	for _, d := range []driver{
		{"psycopg", e.postgres, python(t, "psycopg"), []string{"psycopg_leader.py"}, psycopgSays},
		{"jdbc", e.postgres, jdbc(t), []string{"Jdbc.java"}, postgresSays("true")},
		{"node_postgres", e.postgres, node(t, "pg"), []string{"pg.js"}, postgresSays("true")},
		{"redis_py", e.redis, python(t, "redis"), []string{"redis_leader.py"}, redisSays},
		{"ioredis", e.redis, node(t, "ioredis"), []string{"ioredis.js"}, ioredisSays},
	} {
		t.Run(d.name, func(t *testing.T) { e.run(t, d) })
	}
	t.Run("psql", e.psql)
	t.Run("pg_dump and pg_restore", e.dump)
	t.Run("redis-cli", e.redisCLI)
}

// driver is a program that uses a driver.
type driver struct {
	name    string // also of its resource
	server  string // port of the guard
	command []string
	args    []string
	says    string
}

var psycopgSays = strings.NewReplacer("deposed RF001 ringfence NAME 5 6", "deposed stale token",
	"refused RF001", "refused stale token").Replace(postgresSays("True"))

func postgresSays(encrypted string) string {
	return "wrote 3\nencrypted " + encrypted + `
deposed RF001 ringfence NAME 5 6
refused RF001
`
}

const (
	redisSays   = "wrote 3\ndeposed STALETOKEN\nrefused STALETOKEN\n"
	ioredisSays = "wrote 3\ndeposed ended\nrefused STALETOKEN\n"
)

// encrypted is a guard, and its servers, that are reached with TLS only.
type encrypted struct {
	*stack
	*guard
	authority       *serverstest.Authority
	postgres, redis string // ports of the guard
	direct          string // port of Postgres, where it admits sessions itself
}

func newEncrypted(t *testing.T) *encrypted {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), servingTime)
	t.Cleanup(cancel)
	authority := serverstest.NewAuthority(t)
	own := authority.Issue("localhost") // the guard has it, too, for channel binding
	tlsRedis := serverstest.FreeAddresses(t, 1)[0]
	_, port, _ := net.SplitHostPort(tlsRedis)
	s := &stack{
		t: t, ctx: ctx,
		pg: serverstest.Postgres(t, servers.PostgresOptions{
			Settings: map[string]string{"ssl": "on"},
			Files:    map[string][]byte{"server.crt": own.Cert, "server.key": own.Key},
			HBA: `local all all trust
host all postgres 127.0.0.1/32 trust
hostssl all all 127.0.0.1/32 scram-sha-256
`,
		}),
		redis: serverstest.Redis(t, servers.RedisOptions{Args: []string{
			"--tls-port", port, "--tls-cert-file", own.CertFile, "--tls-key-file", own.KeyFile,
			"--tls-ca-cert-file", authority.File, "--tls-auth-clients", "no",
		}}),
	}
	s.sql(`create role guard login password 'secret'; create role app login password 'secret';
	    create role keeper login password 'secret';
	    create table ledger (n bigserial, token bigint, note text); grant all on ledger, ledger_n_seq to app;
	    create table kept (note text); alter table kept owner to keeper; insert into kept values ('é'), ('two');
	    grant create on schema public to keeper`)
	admin := redis.NewClient(&redis.Options{Addr: s.redis.Addr()})
	defer admin.Close()
	if err := admin.Do(ctx, "acl", "setuser", "app", "on", ">secret", "~ledger*", "+@all",
		"-@dangerous", "+info").Err(); err != nil {
		t.Fatal(err)
	}
	g := s.prepared(serverstest.FreeAddresses(t, 3))
	roots := "sslmode=verify-full&sslrootcert=" + authority.File
	g.env = []string{
		"GUARD_COORDINATOR=", "GUARD_TLS_REQUIRE=true", "GUARD_TLS_CERT=" + own.CertFile,
		"GUARD_TLS_KEY=" + own.KeyFile,
		"GUARD_POSTGRES_UPSTREAM=" +
			strings.NewReplacer("sslmode=disable", roots, "guard@", "guard:secret@").
				Replace(s.pg.URL("guard", "postgres")),
		"GUARD_REDIS_UPSTREAM=rediss://" + tlsRedis + "?" + roots,
	}
	install := s.program("guard", "install")
	install.Env = append(install.Env, g.env...)
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	g.start()
	e := &encrypted{stack: s, guard: g, authority: authority}
	_, e.postgres, _ = net.SplitHostPort(g.pg)
	_, e.redis, _ = net.SplitHostPort(g.redis)
	e.refusesPlain()
	return e
}

// refusesPlain makes sure that a session without TLS is not what passes below.
func (e *encrypted) refusesPlain() {
	e.t.Helper()
	for _, address := range []string{e.guard.pg, e.stack.pg.Addr()} {
		if _, err := pgx.Connect(e.ctx, "postgres://app:secret@"+address+
			"/postgres?sslmode=disable"); err == nil {
			e.t.Fatalf("%s needs no TLS", address)
		}
	}
}

// lead admits a newer leader of a resource to the server at this port.
func (e *encrypted) lead(t *testing.T, server, resource string) {
	t.Helper()
	if server == e.direct {
		e.raise(t, resource, 6)
		return
	}
	if server == e.postgres {
		c, err := pgx.Connect(e.ctx,
			fmt.Sprintf("postgres://app:secret@localhost:%s/postgres?sslmode=verify-full"+
				"&sslrootcert=%s&options=-c%%20fence.%s%%3D6", server, e.authority.File, resource))
		must.Succeed(t, err)
		t.Cleanup(func() { _ = c.Close(context.WithoutCancel(t.Context())) })
		return
	}
	c := redis.NewClient(&redis.Options{
		Addr: "localhost:" + server, Username: "app", Password: "secret", ClientName: "fence." +
			resource + ".6",
		TLSConfig: &tls.Config{InsecureSkipVerify: true},
	})
	t.Cleanup(func() { _ = c.Close() })
	must.Succeed(t, c.Ping(e.ctx).Err())
}

// run runs a program, and compares what it says.
func (e *encrypted) run(t *testing.T, d driver) {
	if d.command == nil {
		missing(t, d.name)
	}
	ctx, cancel := context.WithTimeout(e.ctx, driverTime)
	defer cancel()
	e.sql("truncate ledger")
	cmd := exec.CommandContext(ctx, d.command[0], slices.Concat(d.command[1:], d.args)...)
	cmd.Dir = filepath.Join("testdata", "drivers")
	cmd.Env = append(os.Environ(), "PORT="+d.server, "CA="+e.authority.File, "RESOURCE="+d.name)
	errs := &strings.Builder{}
	cmd.Stderr = errs
	in, err := cmd.StdinPipe()
	must.Succeed(t, err)
	out, err := cmd.StdoutPipe()
	must.Succeed(t, err)
	must.Succeed(t, cmd.Start())
	want := strings.ReplaceAll(d.says, "NAME", d.name)
	lines := bufio.NewReader(out)
	var said strings.Builder
	before, _, _ := strings.Cut(want, "deposed")
	for range strings.Count(before, "\n") {
		line, _ := lines.ReadString('\n')
		said.WriteString(line)
	}
	if said.String() == before {
		e.lead(t, d.server, d.name)
	}
	_, _ = io.WriteString(in, "\n")
	rest, _ := io.ReadAll(lines)
	said.Write(rest)
	if err := cmd.Wait(); err != nil || said.String() != want {
		t.Errorf("%v: it said\n%swant\n%s%s", err, said.String(), want, errs)
	}
}
