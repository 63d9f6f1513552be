package endtoend

import (
	"context"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/test/leadertest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// TestTheFirstStepsOfTheDocumentation runs the commands of docs/first-steps.md and compares what
// they print with the page.
func TestTheFirstStepsOfTheDocumentation(t *testing.T) {
	t.Parallel()
	w := newWalk(t)
	prepare, installed := w.block("CREATE DATABASE"), w.block("postgres: installed")
	one, two := w.block("guard serve"), w.block("kill -STOP")
	refused, after := w.block("FATAL:"), w.block("$ fg")

	w.printed(installed, w.run(prepare))
	lines := typed(one) // settings, guard, leader
	guard := w.start(lines[0] + strings.TrimSuffix(lines[1], "&\n"))
	leadertest.Eventually(t, "the guard listens", func() bool {
		conn, err := net.Dial("tcp", w.guard)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	first := w.start(lines[0] + "exec " + lines[2])
	first.screen.Await(t, "INSERT 0 1")
	w.printed(one, first.screen.String())

	lines = typed(two) // settings, status, kill, leader
	status := w.run(lines[0] + lines[1])
	must.Succeed(t, first.cmd.Process.Signal(syscall.SIGSTOP))
	w.printed(two, status+w.run(lines[0]+lines[3]))

	w.run("touch go") // the sleep of the first is over
	first.screen.Await(t, "server closed the connection")
	w.printed(refused, first.screen.String())
	must.Succeed(t, first.cmd.Process.Signal(syscall.SIGCONT))
	leadertest.Await(t, "the first leader ends", first.ended)
	if code := first.cmd.ProcessState.ExitCode(); code != 117 {
		t.Errorf("exit code %d", code)
	}
	logged, rest, _ := strings.Cut(after, "$ echo")
	_, logged, _ = strings.Cut(logged, "level=") // without the line of fg
	w.printed("level="+logged, first.screen.String())
	_, rest, _ = strings.Cut(rest, "$ psql")
	query, table, _ := strings.Cut(rest, "\n")
	w.printed(table, w.run(". ./shop.env; psql"+query))
	select {
	case <-guard.ended:
		t.Error("the guard has ended")
	default:
	}
}

// walk is a reader with other ports, who does not wait 30 seconds.
type walk struct {
	t        *testing.T
	ctx      context.Context
	dir      string
	replaced *strings.Replacer
	env      []string
	blocks   []string // the code of the page
	guard    string   // its address
}

func newWalk(t *testing.T) *walk {
	t.Helper()
	page, err := os.ReadFile("../../../../docs/first-steps.md")
	must.Succeed(t, err)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*time.Minute)
	t.Cleanup(cancel)
	w := &walk{t: t, ctx: ctx, dir: t.TempDir(), guard: serverstest.FreeAddresses(t, 1)[0]}
	database := w.port(serverstest.Postgres(t, servers.PostgresOptions{}).Addr())
	w.replaced = strings.NewReplacer("5432", database, "6432", w.port(w.guard),
		"sleep 30", "while [ ! -e go ]; do sleep 0.05; done")
	w.env = append(os.Environ(), "PGPORT="+database, "PATH="+programs+":"+os.Getenv("PATH"),
		"LEADER_SESSION_TIMEOUT="+shortSession.String())
	for i, block := range strings.Split(string(page), "```\n") {
		if i%2 == 1 {
			w.blocks = append(w.blocks, block)
		}
	}
	return w
}

func (w *walk) port(address string) string {
	w.t.Helper()
	_, port, err := net.SplitHostPort(address)
	must.Succeed(w.t, err)
	return port
}

// block returns the code that has this text.
func (w *walk) block(text string) string {
	w.t.Helper()
	for _, block := range w.blocks {
		if strings.Contains(block, text) {
			return block
		}
	}
	w.t.Fatalf("no code with %q", text)
	return ""
}

// typed returns the lines that a reader types.
func typed(block string) (lines []string) {
	for line := range strings.Lines(block) {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			lines = append(lines, command)
		}
	}
	return lines
}

func (w *walk) shell(commands string) *exec.Cmd {
	cmd := exec.CommandContext(w.ctx, "bash", "-c", w.replaced.Replace(commands))
	cmd.Dir, cmd.Env, cmd.WaitDelay = w.dir, w.env, 5*time.Second
	return cmd
}

// run returns what commands print.
func (w *walk) run(commands string) string {
	w.t.Helper()
	out, err := w.shell(commands).CombinedOutput()
	if err != nil {
		w.t.Fatalf("%s: %v\n%s", commands, err, out)
	}
	return string(out)
}

// running is a command in the background.
type running struct {
	cmd    *exec.Cmd
	screen *leadertest.Screen
	ended  chan struct{}
}

func (w *walk) start(commands string) *running {
	w.t.Helper()
	r := &running{cmd: w.shell(commands), screen: leadertest.NewScreen(), ended: make(chan struct{})}
	r.cmd.Stdout, r.cmd.Stderr = r.screen, r.screen
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must.Succeed(w.t, r.cmd.Start())
	go func() { defer close(r.ended); _ = r.cmd.Wait() }()
	w.t.Cleanup(func() {
		_ = syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL)
		<-r.ended
		if w.t.Failed() {
			w.t.Logf("%s:\n%s", commands, r.screen)
		}
	})
	return r
}

// printed fails the test unless the output has the lines of a block that nobody types, in order.
// Of a line of the log it compares the message, and of others what comes before a holder. Tokens
// are times, so any token is like any other.
func (w *walk) printed(block, output string) {
	w.t.Helper()
	rest := oneSpace(token.ReplaceAllString(output, "TOKEN"))
	for line := range strings.Lines(block) {
		if strings.HasPrefix(line, "$ ") || strings.HasPrefix(line, "[") {
			continue // typed, or printed by an interactive shell
		}
		line = strings.TrimSpace(line)
		if _, message, ok := strings.Cut(line, `msg="`); ok { // the log is JSON off a terminal
			line, _, _ = strings.Cut(message, `"`)
		}
		line, _, _ = strings.Cut(line, "vm:")
		line = token.ReplaceAllString(line, "TOKEN")
		_, after, found := strings.Cut(rest, oneSpace(line))
		if !found {
			w.t.Errorf("%q is not printed, or earlier, in:\n%s", line, output)
			continue
		}
		rest = after
	}
}

var token = regexp.MustCompile(`\b[0-9]{16}\b`)

// oneSpace leaves one blank between words: columns are as wide as the name of the machine.
func oneSpace(s string) string { return strings.Join(strings.Fields(s), " ") }
