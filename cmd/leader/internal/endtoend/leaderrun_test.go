package endtoend

import (
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/cmd/leader/internal/agent"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// psql runs `leader run orders -- psql …` through a guard. psql itself knows nothing of tokens.
func (s *stack) psql(g *guard, sql string) *exec.Cmd {
	host, port, err := net.SplitHostPort(g.pg)
	must.Succeed(s.t, err)
	cmd := s.program("leader", "run", "orders", "--", "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1",
		"-h", host, "-p", port, "-U", "app", "-d", "postgres", "-c", sql)
	cmd.Env = append(cmd.Env,
		fmt.Sprintf("LEADER_STORES=postgres://app@%s/postgres,redis://%s", g.pg, g.redis))
	return cmd
}

func TestLeaderRunFencesAnUnchangedPsql(t *testing.T) {
	t.Parallel()
	onEveryCoordinator(t, leaderRunFencesAnUnchangedPsql)
}

func leaderRunFencesAnUnchangedPsql(t *testing.T, s *stack) {
	g := s.guard()
	psql := s.psql(g,
		"insert into ledger (token, note) values (current_setting('fence.orders')::bigint, 'psql')")
	out, err := psql.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	token, err := fence.ParseToken(s.column("select token::text from ledger")[0])
	must.Succeed(t, err)
	// The mark is on both stores, although psql uses only one.
	_, err = g.postgres(token - 1)
	wantStale(t, "Postgres", err)
	wantStale(t, "Redis", g.redisClient(token-1).RPush(s.ctx, "ledger", "late").Err())
}

// What the guard advises helps more than general advice.
func TestARefusedLoginSaysWhatTheGuardAdvises(t *testing.T) {
	t.Parallel()
	s := newStackWith(t, "")
	own := serverstest.NewAuthority(t).Issue("localhost")
	g := s.prepared(serverstest.FreeAddresses(t, 3))
	g.env = []string{"GUARD_TLS_REQUIRE=true", "GUARD_TLS_CERT=" + own.CertFile, "GUARD_TLS_KEY=" +
		own.KeyFile}
	g.start()
	stores := "LEADER_STORES=postgres://app@" + g.pg + "/postgres?sslmode=disable"
	const advice = "set sslmode=require"
	cmd := s.psql(g, "select 1")
	cmd.Env = append(cmd.Env, stores)
	out, err := cmd.CombinedOutput()
	if text := string(out); cmd.ProcessState.ExitCode() != cli.OwnOffset+cli.Error ||
		!strings.Contains(text, `"next":"`+advice) {
		t.Errorf("%v: %s", err, text)
	}
	lost := s.stands(s.agent(g, stores).client, "a").until(agent.Lost)
	if lost.Cause != agent.Refused || !strings.Contains(lost.Error, advice) {
		t.Errorf("%+v", lost)
	}
}

func TestAPsqlWhoseLeaderIsDeposedIsStoppedAndItsTransactionRollsBack(t *testing.T) {
	t.Parallel()
	onEveryCoordinator(t, aPsqlWhoseLeaderIsDeposedIsStoppedAndItsTransactionRollsBack)
}

func aPsqlWhoseLeaderIsDeposedIsStoppedAndItsTransactionRollsBack(t *testing.T, s *stack) {
	g := s.guard()
	first := s.psql(g, "insert into ledger (token, note) select 1, 'late' from pg_sleep(100)")
	var said strings.Builder
	first.Stderr = &said
	must.Succeed(t, first.Start())
	for !slices.Contains(s.column("select state from pg_stat_activity where query like 'insert "+
		"into ledger%'"), "active") {
		if s.ctx.Err() != nil {
			t.Fatalf("psql did not start: %s", said.String())
		}
		time.Sleep(pollEvery)
	}
	s.depose()
	err := first.Wait()
	if code := first.ProcessState.ExitCode(); code != cli.OwnOffset+cli.Lost ||
		!strings.Contains(said.String(), "deposed") {
		t.Errorf("exit code %d (%v): %s", code, err, said.String())
	}
	start := time.Now()
	out, err := s.psql(g, "insert into ledger (token, note) values (2, 'next')").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Logf("the next leader was done %s later", time.Since(start).Round(time.Millisecond))
	if got := s.column("select note from ledger"); !slices.Equal(got, []string{"next"}) {
		t.Errorf("the ledger holds %q", got)
	}
}

func TestAfterAKillTheNextLeaderIsElectedAfterTheSessionTimeout(t *testing.T) {
	t.Parallel()
	onEveryCoordinator(t, afterAKillTheNextLeaderIsElectedAfterTheSessionTimeout)
}

func afterAKillTheNextLeaderIsElectedAfterTheSessionTimeout(t *testing.T, s *stack) {
	g := s.guard()
	first := s.psql(g, "insert into ledger (token, note) select 1, 'late' from pg_sleep(100)")
	first.Env = append(first.Env, "LEADER_SESSION_TIMEOUT="+shortSession.String())
	must.Succeed(t, first.Start())
	for !slices.Contains(s.column("select state from pg_stat_activity where query like 'insert "+
		"into ledger%'"), "active") {
		if s.ctx.Err() != nil {
			t.Fatal("psql did not start")
		}
		time.Sleep(pollEvery)
	}
	killed := time.Now()
	_ = first.Process.Signal(syscall.SIGKILL)
	_ = first.Wait()
	if out, err := s.psql(g,
		"insert into ledger (token, note) values (2, 'next')").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	took := time.Since(killed)
	t.Logf("the next leader was done %s after the kill, session timeout %s",
		took.Round(time.Millisecond), shortSession)
	// the last heartbeat may be a third of the session, and a stall, before the kill
	if took < shortSession/4 {
		t.Errorf("the next leader was elected %s after the kill, before the session could expire", took)
	}
	if got := s.column("select note from ledger"); !slices.Equal(got, []string{"next"}) {
		t.Errorf("the ledger holds %q", got)
	}
}

// A service manager starts it again whenever it ends. Each start uses up a number.
func TestALeaderRunThatIsStartedAgainAfterARestoreNeverRunsItsCommand(t *testing.T) {
	t.Parallel()
	onEveryRestorable(t, leaderRunThatIsStartedAgainAfterARestoreNeverRunsItsCommand)
}

func leaderRunThatIsStartedAgainAfterARestoreNeverRunsItsCommand(t *testing.T, r *restorable) {
	s := newStackWith(t, r.URL)
	g := s.guard()
	lead := func(note string) (code int, said string) {
		cmd := s.psql(g, "insert into ledger (token, note) "+
			"values (current_setting('fence.orders')::bigint, '"+note+"')")
		out, err := cmd.CombinedOutput()
		if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), string(out)
	}
	r.backUp(s.ctx)
	if code, said := lead("before"); code != 0 {
		t.Fatalf("exit code %d: %s", code, said)
	}
	mark, err := fence.ParseToken(s.column("select token::text from ledger")[0])
	must.Succeed(t, err)
	must.Succeed(t, r.Restore(s.ctx))
	const each = 2 // starts: with the first numbers, up to the mark, above it
	for start := range 3 * each {
		if start == each {
			r.countTo(s.ctx, mark-each)
		}
		if start == 2*each {
			r.countTo(s.ctx, mark+1)
		}
		code, said := lead("restored")
		if code != cli.OwnOffset+cli.Error || !strings.Contains(said, "the coordinator went back") ||
			!strings.Contains(said, "guard adopt --new-issuer orders") {
			t.Errorf("start %d: exit code %d: %s", start+1, code, said)
		}
	}
	s.adopt()
	if code, said := lead("adopted"); code != 0 {
		t.Errorf("exit code %d: %s", code, said)
	}
	want := []string{"before", "adopted"}
	if got := s.column("select note from ledger order by n"); !slices.Equal(got, want) {
		t.Errorf("the ledger holds %q", got)
	}
}
