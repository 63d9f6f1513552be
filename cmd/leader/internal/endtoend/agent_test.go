package endtoend

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/cmd/leader/internal/agent"
	"github.com/ringfence/ringfence/internal/test/must"
)

// agentProcess is one of `leader agent`.
type agentProcess struct {
	cmd    *exec.Cmd
	socket string
	client *http.Client
}

// agent starts one on a Unix socket, with these further settings.
func (s *stack) agent(g *guard, env ...string) *agentProcess {
	s.t.Helper()
	return s.agentInto(nil, g, env...)
}

// agentInto starts one with this standard error.
func (s *stack) agentInto(stderr io.Writer, g *guard, env ...string) *agentProcess {
	s.t.Helper()
	socket := filepath.Join(s.t.TempDir(), "agent.sock")
	a := &agentProcess{s.program("leader", "agent", "--listen", "unix:"+socket), socket, &http.Client{
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}},
	}}
	a.cmd.Env = append(a.cmd.Env, s.agentEnv(g, env...)...)
	a.cmd.Stderr = stderr
	s.run(a.cmd)
	s.t.Cleanup(a.client.CloseIdleConnections)
	s.answers(reached{a.client, "http://agent"})
	return a
}

func (s *stack) agentEnv(g *guard, env ...string) []string {
	return append([]string{fmt.Sprintf("LEADER_STORES=postgres://app@%s/postgres,redis://%s", g.pg,
		g.redis)}, env...)
}

// run runs a process until the end of the test.
func (s *stack) run(cmd *exec.Cmd) {
	s.t.Helper()
	var said strings.Builder
	if cmd.Stderr == nil {
		cmd.Stderr = &said
	}
	must.Succeed(s.t, cmd.Start())
	s.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if s.t.Failed() {
			s.t.Logf("%s: %s", cmd, said.String())
		}
	})
}

// answers waits until an agent answers.
func (s *stack) answers(a reached) {
	s.t.Helper()
	for {
		answer, err := a.client.Get(a.at + "/openapi.yaml")
		if err == nil {
			answer.Body.Close()
			return
		}
		if s.ctx.Err() != nil {
			s.t.Fatal(err)
		}
		time.Sleep(pollEvery)
	}
}

// stream reads the events of one term.
type stream struct {
	s     *stack
	lines *bufio.Scanner
	close func()
}

func (s *stack) stands(client *http.Client, holder string) stream {
	s.t.Helper()
	return s.standsFor(client, "orders", holder)
}

func (s *stack) standsFor(client *http.Client, resource, holder string) stream {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.ctx)
	s.t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, "POST", "http://agent/v1/terms",
		strings.NewReader(`{"resource":"`+resource+`","holder":"`+holder+`"}`))
	must.Succeed(s.t, err)
	r.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(r)
	must.Succeed(s.t, err)
	s.t.Cleanup(func() { answer.Body.Close() })
	return stream{s, bufio.NewScanner(answer.Body), cancel}
}

// until returns the next event of this kind.
func (st stream) until(what agent.What) (e agent.Event) {
	st.s.t.Helper()
	for st.lines.Scan() {
		must.Succeed(st.s.t, json.Unmarshal(st.lines.Bytes(), &e))
		if e.Event == what {
			return e
		}
	}
	st.s.t.Fatalf("the stream has ended before %q: %v", what, st.lines.Err())
	return e
}

// writes writes through a connection under the term, in each of the three ways.
func (s *stack) writes(g *guard, e agent.Event) error {
	s.t.Helper()
	in := func(url string, statements ...string) error {
		db, err := pgx.Connect(s.ctx, url)
		if err != nil {
			return err
		}
		defer db.Close(s.ctx)
		for _, sql := range statements {
			if _, err := db.Exec(s.ctx, sql); err != nil {
				return err
			}
		}
		return nil
	}
	const insert = "insert into ledger (note) values ('agent')"
	for way, err := range map[string]error{
		"through the guard":   in(g.url(e.Carry.PGOPTIONS), insert),
		"through the carrier": in(e.Carry.Environ["DATABASE_URL"], insert),
		"by ringfence.enter": in(s.pg.URL("app", "postgres"), "begin", "select ringfence.enter('"+
			e.Carry.Pass+"')",
			insert, "commit"),
	} {
		if err != nil {
			return fmt.Errorf("%s: %w", way, err)
		}
	}
	return nil
}

func TestAProgramHoldsATermByReadingAStream(t *testing.T) {
	t.Parallel()
	onEveryCoordinator(t, aProgramHoldsATermByReadingAStream)
}

func aProgramHoldsATermByReadingAStream(t *testing.T, s *stack) {
	g := s.guard()
	a := s.agent(g, "LEADER_CARRY=postgres")
	one := s.stands(a.client, "one")
	leading := one.until(agent.Leading)
	must.Succeed(t, s.writes(g, leading))
	two := s.stands(a.client, "two")
	if e := two.until(agent.Waiting); e.Leader != "one" || e.Place != 1 {
		t.Errorf("%+v", e)
	}
	start := time.Now()
	s.depose()
	if e := one.until(agent.Lost); e.Cause != agent.Deposed {
		t.Errorf("%+v", e)
	}
	t.Logf("told %s after the operator's command had begun", time.Since(start))
	next := two.until(agent.Leading)
	for _, url := range []string{g.url(leading.Carry.PGOPTIONS),
		leading.Carry.Environ["DATABASE_URL"]} {
		if db, err := pgx.Connect(s.ctx, url); err == nil {
			db.Close(s.ctx)
			t.Error("a deposed program connects")
		}
	}
	must.Succeed(t, s.writes(g, next))
	_ = a.cmd.Process.Signal(syscall.SIGTERM)
	if e := two.until(agent.Lost); e.Cause != agent.Stopped {
		t.Errorf("%+v", e)
	}
	if n := s.column("select count(*)::text from ledger"); n[0] != "6" {
		t.Errorf("%s writes", n[0])
	}
}

// url returns that of the guard, with these options.
func (g *guard) url(options string) string {
	return fmt.Sprintf("postgres://app@%s/postgres?sslmode=disable&options=%s", g.pg,
		strings.NewReplacer(" ", "%20", "=", "%3D").Replace(options))
}
