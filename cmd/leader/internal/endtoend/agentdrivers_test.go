package endtoend

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringfence/ringfence/cmd/leader/internal/agent"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

const agentToken = "0123456789abcdef"

// TestDriversHoldTermsByTheAgent runs the programs of examples/agent: each wins, writes through the
// guard and in a transaction of its own, and is deposed; and once more, paused meanwhile.
func TestDriversHoldTermsByTheAgent(t *testing.T) {
	t.Parallel()
	s := newStackWith(t, "")
	g := s.guard()
	const session = "LEADER_SESSION_TIMEOUT=10s" // an event every third of it
	onSocket := s.agent(g, session)
	at := serverstest.FreeAddresses(t, 1)[0]
	onPort := s.program("leader", "agent", "--listen", at)
	onPort.Env = append(onPort.Env, s.agentEnv(g, session, "LEADER_HTTP_TOKEN="+agentToken)...)
	s.run(onPort)
	agents := []reached{{onSocket.client, "http://agent"}, {http.DefaultClient, "http://" + at}}
	s.answers(agents[1])
	env := append(os.Environ(), "AGENT=http://"+at, "AGENT_SOCKET="+onSocket.socket,
		"LEADER_HTTP_TOKEN="+agentToken,
		"GUARDED="+fmt.Sprintf("postgres://app@%s/postgres?sslmode=disable", g.pg), "DIRECT="+
			s.pg.URL("app", "postgres"),
		"GUARDED_JDBC="+fmt.Sprintf("jdbc:postgresql://%s/postgres?user=app", g.pg),
		"DIRECT_JDBC="+fmt.Sprintf("jdbc:postgresql://%s/postgres?user=app", s.pg.Addr()))
	modules, err := filepath.Abs(filepath.Join("testdata", "drivers", "node_modules"))
	must.Succeed(t, err)
	for _, l := range []struct {
		name    string
		command []string
		program string
	}{
		{"python", python(t, "psycopg2"), "leader.py"}, {"node", node(t, "pg"), "leader.mjs"},
		{"java", jdbc(t), "Leader.java"}, {"shell", []string{"sh"}, "leader.sh"},
	} {
		t.Run(l.name, func(t *testing.T) {
			if l.command == nil || l.name == "shell" && absent("curl", "psql") {
				missing(t, l.name)
			}
			file := filepath.Join("..", "..", "..", "..", "examples", "agent", l.program)
			if l.name == "node" { // finds modules beside the program
				file = beside(t, file, modules)
			}
			s := *s
			s.t = t
			p := &holder{s: &s, name: l.name, command: append(l.command, file), env: env, agents: agents}
			p.learnsOfItsLoss()
			p.isRefusedAfterAPause(onSocket)
		})
	}
}

func absent(programs ...string) bool {
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			return true
		}
	}
	return false
}

// beside copies a program into a folder that has its modules.
func beside(t *testing.T, file, modules string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	must.Succeed(t, err)
	dir := t.TempDir()
	copied := filepath.Join(dir, filepath.Base(file))
	must.Succeed(t, os.WriteFile(copied, text, 0o600))
	must.Succeed(t, os.Symlink(modules, filepath.Join(dir, "node_modules")))
	return copied
}

// reached is an agent, as a client reaches it.
type reached struct {
	client *http.Client
	at     string
}

// terms returns the terms of an agent.
func (s *stack) terms(a reached) []agent.Event {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.ctx, "GET", a.at+"/v1/terms", nil)
	must.Succeed(s.t, err)
	r.Header.Set("Authorization", "Bearer "+agentToken)
	answer, err := a.client.Do(r)
	must.Succeed(s.t, err)
	defer answer.Body.Close()
	var all struct{ Terms []agent.Event }
	must.Succeed(s.t, json.NewDecoder(answer.Body).Decode(&all))
	return all.Terms
}

// holder is a program that holds a term.
type holder struct {
	s       *stack
	name    string
	command []string
	env     []string
	agents  []reached

	cmd   *exec.Cmd
	lines *bufio.Scanner
}

// start starts the program, and returns when it has written in both ways.
func (p *holder) start() {
	p.s.t.Helper()
	before := p.written()
	p.cmd = exec.CommandContext(p.s.ctx, p.command[0], p.command[1:]...)
	p.cmd.Env, p.cmd.SysProcAttr = p.env, &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Cancel = func() error { return syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }
	out, err := p.cmd.StdoutPipe()
	must.Succeed(p.s.t, err)
	p.cmd.Stderr = p.cmd.Stdout
	must.Succeed(p.s.t, p.cmd.Start())
	p.lines = bufio.NewScanner(out)
	p.reads("leading")
	for p.written() < before+2 {
		if p.s.ctx.Err() != nil {
			p.s.t.Fatal("it does not write")
		}
		time.Sleep(pollEvery)
	}
}

// reads reads what the program prints, up to a line that begins like this.
func (p *holder) reads(prefix string) {
	p.s.t.Helper()
	var said []string
	for p.lines.Scan() {
		if said = append(said, p.lines.Text()); strings.HasPrefix(p.lines.Text(), prefix) {
			return
		}
	}
	p.s.t.Fatalf("it does not say %q, but %q", prefix, said)
}

func (p *holder) written() int {
	return len(p.s.column("select note from ledger where note = '" + p.name + "'"))
}

func (p *holder) learnsOfItsLoss() {
	p.start()
	defer p.cmd.Cancel()
	p.s.depose()
	start := time.Now()
	p.reads("lost deposed")
	p.s.t.Logf("it knew %s after the operator", time.Since(start))
	must.Report(p.s.t, p.cmd.Wait())
}

func (p *holder) isRefusedAfterAPause(a *agentProcess) {
	p.start()
	defer p.cmd.Cancel()
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGSTOP)
	awaitStopped(p.s, p.cmd.Process.Pid)
	p.awaitAlive()
	p.s.depose()
	next := p.s.stands(a.client, "next")
	next.until(agent.Leading)
	defer next.close()
	before := p.written()
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGCONT)
	var said []string
	for p.lines.Scan() {
		said = append(said, p.lines.Text())
	}
	_ = p.cmd.Wait()
	p.s.t.Logf("it says: %s", strings.Join(said, "\n"))
	// libpq may lose the reason when its own write fails first: docs/tls.md.
	refused := regexp.MustCompile("stale token|RF001|closed the connection unexpectedly")
	if !refused.MatchString(strings.Join(said, "\n")) {
		p.s.t.Error("it was not refused")
	}
	if n := p.written(); n != before {
		p.s.t.Errorf("%d late writes", n-before)
	}
}

// awaitAlive waits until an event is in the stream that makes the program write.
func (p *holder) awaitAlive() {
	ctx, cancel := context.WithTimeout(p.s.ctx, time.Minute)
	defer cancel()
	for first := p.until(); p.until() == first; time.Sleep(pollEvery) {
		if ctx.Err() != nil {
			p.s.t.Fatal("no event comes")
		}
	}
}

// until returns the deadline of the program's term, as the agent has told it.
func (p *holder) until() string {
	p.s.t.Helper()
	for _, a := range p.agents {
		for _, e := range p.s.terms(a) {
			if e.Holder == p.name {
				return e.Until.String()
			}
		}
	}
	p.s.t.Fatal("no agent has the term")
	return ""
}
