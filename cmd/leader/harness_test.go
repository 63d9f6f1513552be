package main

import (
	"context"
	"io"
	"maps"
	"os"
	"testing"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/checkpointtest"
	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/cmd/leader/internal/stores"
	"github.com/ringfence/ringfence/cmd/leader/internal/tasks"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/fence/fencetest"
	"github.com/ringfence/ringfence/internal/coordinators"
	"github.com/ringfence/ringfence/internal/test/leadertest"
)

// Session timeouts.
const (
	longSession = time.Minute // no test waits for it to expire
	// of leaders that are killed or paused; long enough on a busy machine
	shortSession = 6 * time.Second
)

// leaderRun is one leader in this process, with a coordinator in memory and signals from the test.
type leaderRun struct {
	t       *testing.T
	memory  *fencetest.Memory
	client  *fencetest.Client // the leader's
	out     *leadertest.Screen
	log     *leadertest.Screen
	signals chan os.Signal
	code    chan int
}

type setup struct {
	memory  *fencetest.Memory
	stores  stores.Table
	journal *checkpointtest.Memory // for tasks that name no journal
	env     []string
	stdin   io.Reader
}

// journals returns the table of journals with the setup's journal added.
func (s setup) journals() tasks.Journals {
	all := maps.Clone(tasks.AllJournals)
	all["mem"] = func(context.Context, string, tasks.JournalOptions) (checkpoint.Journal, func(),
		error) {
		return s.journal, func() {}, nil
	}
	return all
}

// begin runs leader with the arguments.
func begin(t *testing.T, s setup, args ...string) *leaderRun {
	t.Helper()
	l := &leaderRun{
		t: t, memory: s.memory, out: leadertest.NewScreen(), log: leadertest.NewScreen(),
		signals: make(chan os.Signal, 8), code: make(chan int, 1),
	}
	if l.memory == nil {
		l.memory = fencetest.NewMemory(longSession)
	}
	l.client = l.memory.Open()
	p := &program{
		Streams: cli.Streams{
			Env: append([]string{
				"PATH=" + os.Getenv("PATH"), "LEADER_COORDINATOR=mem://here", "LEADER_JOURNAL=mem://here",
				"LEADER_SESSION_TIMEOUT=" + longSession.String(), "LEADER_LOG=debug",
			}, s.env...),
			Stdin:  s.stdin,
			Stdout: l.out,
			Stderr: l.log,
		},
		electors: coordinators.Table{"mem": func(
			context.Context, string, coordinators.Options,
		) (documents.Coordinator, error) {
			return l.client, nil
		}},
		stores:   s.stores,
		journals: s.journals(),
		notify:   func() (<-chan os.Signal, func()) { return l.signals, func() { close(l.signals) } },
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.code <- p.run(ctx, args)
	}()
	t.Cleanup(func() {
		cancel()
		if t.Failed() {
			t.Logf("stdout:\n%s\nstderr:\n%s", l.out, l.log)
			leadertest.Await(t, "leader ends", ended) // and its command with it, which would run for ever
		}
	})
	return l
}

// shell runs a script as the leader of orders.
func shell(t *testing.T, s setup, script string) *leaderRun {
	t.Helper()
	return begin(t, s, "run", "orders", "--", "/bin/sh", "-c", script)
}

// The codes of a leader run or submit for its own failures.
const (
	runError = cli.OwnOffset + cli.Error
	runUsage = cli.OwnOffset + cli.Usage
	runLost  = cli.OwnOffset + cli.Lost
)

// own returns a subcommand's code for a failure of its own.
func own(subcommand string, code int) int {
	if subcommand == "run" || subcommand == "submit" {
		return cli.OwnOffset + code
	}
	return code
}

// exits waits for the end and checks the exit code.
func (l *leaderRun) exits(want int) { l.t.Helper(); leadertest.Exits(l.t, l.code, want) }

// pid waits for a line "name=number" of the command and returns the number.
func (l *leaderRun) pid(name string) int { l.t.Helper(); return l.out.PID(l.t, name) }

// queue returns the candidates for orders.
func (l *leaderRun) queue() []elector.Candidate {
	l.t.Helper()
	return leadertest.Queue(l.t, l.memory)
}

// depose deletes the leader's entry.
func (l *leaderRun) depose() { l.t.Helper(); leadertest.Depose(l.t, l.memory) }

// successor stands for election behind the leader of orders, and calls won when it is elected.
func (l *leaderRun) successor(won func()) (elected <-chan struct{}) {
	l.t.Helper()
	client, done := l.memory.Open(), make(chan struct{})
	go func() {
		defer close(done)
		if _, err := client.Campaign(l.t.Context(), "orders", "successor"); err == nil {
			won()
		}
	}()
	l.t.Cleanup(func() { _ = client.Close() })
	leadertest.Eventually(l.t, "the successor is enrolled", func() bool { return len(l.queue()) == 2 })
	return done
}
