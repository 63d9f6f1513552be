package endtoend

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/test/must"
)

// startVictim starts a leader process. When it returns, the process has left everything open.
func (s *stack) startVictim(g *guard) (cmd *exec.Cmd, out *bufio.Reader, token fence.Token,
	resume func()) {
	s.t.Helper()
	self, err := os.Executable()
	must.Succeed(s.t, err)
	cmd = exec.CommandContext(s.ctx, self)
	cmd.Env = append(os.Environ(), "RINGFENCE_VICTIM="+s.coordinator, "VICTIM_PG="+g.pg,
		"VICTIM_REDIS="+g.redis)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must.Succeed(s.t, err)
	stdout, err := cmd.StdoutPipe()
	must.Succeed(s.t, err)
	must.Succeed(s.t, cmd.Start())
	s.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	out = bufio.NewReader(stdout)
	line, err := out.ReadString('\n')
	must.Succeed(s.t, err)
	if token, err = fence.ParseToken(strings.TrimSpace(line)); err != nil {
		s.t.Fatal(err)
	}
	return cmd, out, token, func() {
		_ = cmd.Process.Signal(syscall.SIGCONT)
		_, _ = in.Write([]byte("\n"))
	}
}

func TestAPausedLeaderIsRefusedInEverythingItLeftOpen(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	g := s.guard()
	cmd, out, old, resume := s.startVictim(g)
	must.Succeed(t, cmd.Process.Signal(syscall.SIGSTOP))
	awaitStopped(s, cmd.Process.Pid)
	start := time.Now()
	term := s.term("successor") // waits until the victim's session has expired
	elected := time.Since(start)
	if term.Token() <= old {
		t.Fatalf("token %s follows %s", term.Token(), old)
	}
	c := g.mustPostgres(term.Token())
	// the victim's lock is released
	_, err := c.Exec(s.ctx, insert, term.Token(), "successor")
	must.Succeed(t, err)
	_, err = c.Exec(s.ctx, "insert into spare values ('successor')")
	must.Succeed(t, err)
	r := g.redisClient(term.Token())
	must.Succeed(t, r.RPush(s.ctx, "ledger", "successor").Err())
	must.Succeed(t, r.RPush(s.ctx, "queue", "work").Err())
	t.Logf("elected %s after the pause, first writes %s later", elected.Round(time.Millisecond),
		(time.Since(start) - elected).Round(time.Millisecond))

	resume()
	line, err := out.ReadString('\n')
	must.Succeed(t, err)
	var attempts []attempt
	must.Succeed(t, json.Unmarshal([]byte(line), &attempts))
	if len(attempts) < 12 {
		t.Errorf("only %d attempts: %v", len(attempts), attempts)
	}
	for _, a := range attempts {
		if a.What == "the end of the COPY" { // written to a pipe that the COPY does not read any more
			continue
		}
		wantStale(t, a.What, errors.New(a.Error))
	}
	if got := s.column("select note from ledger order by n"); strings.Join(got,
		",") != "before the pause,successor" {
		t.Errorf("Postgres holds %q", got)
	}
	if got := s.list("ledger"); got[len(got)-1] != "successor" {
		t.Errorf("Redis holds %q", got)
	}
	if got := s.list("queue"); len(got) != 1 {
		t.Errorf("the queue holds %q: a parked BLPOP of the old leader took the work", got)
	}
}
