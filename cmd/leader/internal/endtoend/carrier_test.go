package endtoend

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/cmd/leader/internal/carrier"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/network/peeruser"
	"github.com/ringfence/ringfence/internal/settings"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// carries runs `leader run orders` with a carrier to both stores. The command is a shell's, without
// the token.
func (s *stack) carries(g *guard, command string) *exec.Cmd {
	cmd := s.program("leader", "run", "orders", "--", "sh", "-euc", "if env | grep ^PGOPTIONS; then "+
		"exit 99; fi; "+command)
	cmd.Env = append(cmd.Env, "PGUSER=app", "PGDATABASE=postgres", "LEADER_CARRY=postgres,redis",
		fmt.Sprintf("LEADER_STORES=postgres://app@%s/postgres,redis://%s", g.pg, g.redis))
	return cmd
}

// pgbench is Debian's own, with no option that names a server or a token.
func TestTheCarrierFencesAPgbenchAndARedisCLIThatKnowNothing(t *testing.T) {
	t.Parallel()
	s := newStackWith(t, "")
	g := s.guard()
	script := filepath.Join(t.TempDir(), "insert.sql")
	insert := "insert into ledger (token, note) values (current_setting('fence.orders')::bigint, " +
		"'pgbench');"
	must.Succeed(t, os.WriteFile(script, []byte(insert), 0o600))
	cmd := s.carries(g,
		fmt.Sprintf(`pgbench -n -c 2 -t 20 -f %s; redis-cli -u "$REDIS_URL" -3 rpush ledger one; `+
			`psql -X "$DATABASE_URL" -c "copy ledger (note) from stdin" < /dev/null`, script))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	tokens := s.column("select token || ' ' || count(*) from ledger group by token")
	if len(tokens) != 1 || !strings.HasSuffix(tokens[0], " 40") {
		t.Fatalf("written under %q", tokens)
	}
	direct := redis.NewClient(&redis.Options{Addr: s.redis.Addr()})
	defer direct.Close()
	if n, err := direct.LLen(s.ctx, "ledger").Result(); n != 1 || err != nil {
		t.Errorf("redis has %d, %v", n, err)
	}
}

// A process that has left the group is not ended with the term. Its connection is.
func TestAConnectionThroughTheCarrierEndsWithTheTerm(t *testing.T) {
	t.Parallel()
	s := newStackWith(t, "")
	g := s.guard()
	cmd := s.carries(g,
		`trap '' TERM; setsid psql -X -q -v ON_ERROR_STOP=1 -c "insert into ledger (note) select 'late' from pg_sleep(600)"; sleep 600`)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	must.Succeed(t, cmd.Start())
	for len(s.column("select query from pg_stat_activity where query like '%pg_sleep(600)%' and "+
		"usename = 'app'")) == 0 {
		if s.ctx.Err() != nil {
			t.Fatalf("psql did not start: %s", said.String())
		}
		time.Sleep(pollEvery)
	}
	s.depose()
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 117 {
		t.Errorf("%v: %s", err, said.String())
	}
	if out, err := s.carries(g, "true").CombinedOutput(); err != nil { // the next leader
		t.Fatalf("%v: %s", err, out)
	}
	if left := s.column("select query from pg_stat_activity where query like '%pg_sleep(600)%' and " +
		"usename = 'app'"); len(left) > 0 {
		t.Errorf("goes on: %q", left)
	}
	if late := s.column("select note from ledger"); len(late) > 0 {
		t.Errorf("written after the term: %q", late)
	}
}

// leftOver writes until the file stop is there, under whatever token its address gives it. It has
// left the process group of the command that has started it, and the kernel's list of that
// command's children. It outlives a leader that is killed; one that ends a term ends it, too.
const leftOver = `(setsid sh -c 'while [ ! -e stop ]; do echo >> tries
	psql -Xq -c "insert into ledger (token, note) values (current_setting(\$\$fence.orders\$\$)::bigint, \$\$left\$\$)" 2>> said
	done; echo > stopped' > /dev/null 2>&1 < /dev/null &)`

// A process that is left over from the first term tries an address that all terms have, and another
// one tries the address that it was given.
func TestAProcessOfAnEarlierTermNeverGetsIn(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]func(dir string) string{
		"an address": func(string) string { return serverstest.FreeAddresses(t, 1)[0] },
		"a socket":   func(dir string) string { return "unix:" + dir + "/.s.PGSQL.5432" },
		"its own":    nil,
	} {
		t.Run(name, func(t *testing.T) {
			s := newStackWith(t, "")
			g := s.guard()
			dir := t.TempDir()
			carry := "LEADER_CARRY=postgres"
			if at != nil {
				carry += "=" + at(dir)
			}
			command := "[ -e tries ] || " + leftOver + "\n" +
				`psql -Xq -c "insert into ledger (token, note) values (current_setting('fence.orders')::bigint, 'led')"; exec sleep 600`
			leads := func() *exec.Cmd {
				cmd := s.program("leader", "run", "--again", "orders", "--", "sh", "-euc", `cd "$DIR"; `+
					command)
				cmd.Env = append(cmd.Env, "PGUSER=app", "PGDATABASE=postgres", "DIR="+dir, carry,
					"LEADER_STORES=postgres://app@"+g.pg+"/postgres", "LEADER_SESSION_TIMEOUT="+
						shortSession.String())
				s.run(cmd)
				return cmd
			}
			cmd := leads()
			written := func(note string) int {
				return len(s.column("select distinct token::text from ledger where note = '" + note + "'"))
			}
			tries := func() int {
				b, _ := os.ReadFile(filepath.Join(dir, "tries"))
				return len(b)
			}
			await := func(what string, done func() bool) {
				t.Helper()
				for !done() {
					if s.ctx.Err() != nil {
						t.Fatalf("%s: did not happen", what)
					}
					time.Sleep(pollEvery)
				}
			}
			t.Cleanup(func() {
				if tries() > 0 && os.WriteFile(filepath.Join(dir, "stop"), nil, 0o600) == nil {
					await("it stops", func() bool {
						_, err := os.Stat(filepath.Join(dir, "stopped"))
						return err == nil
					})
				}
			})
			const terms = 4
			for term := 1; term <= terms; term++ {
				await("the command writes", func() bool { return written("led") == term })
				if term == 1 { // it is a process of this term
					await("it writes", func() bool { return written("left") == 1 })
				}
				before := tries()
				await("the one that is left over tries", func() bool { return tries() >= before+5 })
				if got := written("left"); got != 1 {
					t.Errorf("it has written under %d tokens", got)
				}
				if term == 1 {
					_ = cmd.Process.Kill()
					leads()
				} else if term < terms {
					s.depose()
				}
			}
		})
	}
}

func TestTheCarrierWantsAGuard(t *testing.T) {
	t.Parallel()
	s := newStackWith(t, "")
	cmd := s.carries(&guard{pg: s.pg.Addr(), redis: s.redis.Addr()}, "echo started")
	cmd.Env = append(cmd.Env, "LEADER_CARRY=postgres", "LEADER_STORES="+
		s.pg.URL("postgres", "postgres"))
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 115 || !strings.Contains(string(out), "there is no guard") ||
		strings.Contains(string(out), "started\n") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestTheCarrierWantsAnAddressToListenOn(t *testing.T) {
	t.Parallel()
	s := newStackWith(t, "")
	cmd := s.carries(s.guard(), "echo started")
	cmd.Env = append(cmd.Env, "LEADER_CARRY=postgres=unix:/no/such/dir/.s.PGSQL.5432")
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 115 || !strings.Contains(string(out), "LEADER_CARRY: cannot "+
		"listen there") ||
		strings.Contains(string(out), "started\n") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestTheCarrierTalksTLSToAGuard: what is plain on this machine is encrypted to the guard, with
// passwords.
func TestTheCarrierTalksTLSToAGuard(t *testing.T) {
	t.Parallel()
	e := newEncrypted(t)
	tls := "?sslmode=verify-full&sslrootcert=" + e.authority.File
	routes, err := carrier.Routes(carrier.Setting{{Kind: "postgres"}, {Kind: "redis"}},
		settings.URLs{
			settings.URL("postgres://app:secret@localhost:" + e.postgres + "/postgres" + tls),
			settings.URL("rediss://app:secret@localhost:" + e.redis + "/0" + tls),
		})
	must.Succeed(t, err)
	c, err := carrier.Open(e.ctx, routes, fence.Claim{Resource: "carried", Token: 5},
		peeruser.OnlyUser(os.Getuid()), slog.New(slog.DiscardHandler))
	must.Succeed(t, err)
	defer c.Close()
	at := map[string]string{}
	for _, v := range c.Environ() {
		at[v[0]] = v[1]
	}
	db := pgtest.Connect(t, at["DATABASE_URL"])
	var token string
	if err := db.QueryRow(e.ctx, "select current_setting('fence.carried')").Scan(&token); err != nil ||
		token != "5" {
		t.Errorf("%s, %v", token, err)
	}
	e.cancelled(t, db)
	options, err := redis.ParseURL(at["REDIS_URL"])
	must.Succeed(t, err)
	cache := redis.NewClient(options)
	defer cache.Close()
	must.Report(t, cache.RPush(e.ctx, "ledger:carried", 1).Err())
	e.lead(t, e.postgres, "carried")
	if _, err := db.Exec(e.ctx, "insert into ledger (note) values ('late')"); err == nil {
		t.Error("a deposed leader writes through its session")
	}
	if _, err := pgx.Connect(e.ctx, at["DATABASE_URL"]); err == nil ||
		!strings.Contains(err.Error(), "RF001") {
		t.Errorf("a deposed leader connects: %v", err)
	}
	e.lead(t, e.redis, "carried")
	if err := cache.RPush(e.ctx, "ledger:carried", 2).Err(); err == nil {
		t.Error("a deposed leader writes to Redis")
	}
	raw, err := net.Dial("tcp", options.Addr)
	must.Succeed(t, err)
	defer raw.Close()
	if line, err := io.ReadAll(raw); err != nil || !strings.HasPrefix(string(line), "-STALETOKEN ") {
		t.Errorf("a deposed leader connects to Redis: %s, %v", line, err)
	}
	if n := e.list("ledger:carried"); len(n) != 1 {
		t.Errorf("written to Redis: %q", n)
	}
}

// cancelled cancels a query, which is a request on a connection of its own.
func (e *encrypted) cancelled(t *testing.T, db *pgx.Conn) {
	t.Helper()
	failed := make(chan error, 1)
	go func() { _, err := db.Exec(e.ctx, "select pg_sleep(600)"); failed <- err }()
	for len(e.column("select query from pg_stat_activity where query = 'select pg_sleep(600)' and "+
		"state = 'active'")) == 0 {
		if e.ctx.Err() != nil {
			t.Fatal("the query does not run")
		}
		time.Sleep(pollEvery)
	}
	must.Report(t, db.PgConn().CancelRequest(e.ctx))
	if err := <-failed; err == nil || !strings.Contains(err.Error(), "57014") {
		t.Errorf("cancelled: %v", err)
	}
}
