package tasks

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/checkpointtest"
	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/cmd/leader/internal/environ"
	"github.com/ringfence/ringfence/cmd/leader/internal/stores"
	"github.com/ringfence/ringfence/cmd/leader/internal/supervise"
	"github.com/ringfence/ringfence/cmd/leader/internal/taskfile"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/fence/fencetest"
	"github.com/ringfence/ringfence/internal/settings"
	"github.com/ringfence/ringfence/internal/test/leadertest"
	"github.com/ringfence/ringfence/internal/test/must"
)

// Session timeouts.
const (
	longSession  = time.Minute     // no test waits for it to expire
	shortSession = 6 * time.Second // of leaders that are disconnected; long enough on a busy machine
)

// taskCopy is one copy of a task in this process, with a coordinator in memory and signals from the
// test.
type taskCopy struct {
	t       *testing.T
	memory  *fencetest.Memory
	client  *fencetest.Client // the copy's
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
}

// variables are those of leader's settings that tasks need.
type variables struct {
	Stores         settings.URLs    `env:"LEADER_STORES"`
	SessionTimeout time.Duration    `env:"LEADER_SESSION_TIMEOUT"`
	OnDisconnect   supervise.Policy `env:"LEADER_ON_DISCONNECT" envDefault:"pause"`
	Grace          time.Duration    `env:"LEADER_GRACE"`
	Journal        taskfile.Journal `env:"LEADER_JOURNAL" envDefault:"mem://here"`
	Redis          settings.URL     `env:"LEADER_REDIS"`
	Holder         string           `env:"LEADER_HOLDER" envDefault:"somebody"`
}

// invocation returns the Invocation that leader makes from the arguments and its environment, and
// the method that it calls.
func (s setup) invocation(
	t *testing.T, args []string,
) (*Invocation, func(*Invocation, context.Context) int) {
	t.Helper()
	var v variables
	must.Succeed(t, settings.Load(&v, "LEADER_", s.env))
	journals := maps.Clone(AllJournals)
	journals["mem"] = func(context.Context, string, JournalOptions) (checkpoint.Journal, func(),
		error) {
		return s.journal, func() {}, nil
	}
	claims, err := environ.Setting(nil).Claims(nil, nil)
	must.Succeed(t, err)
	made := &Invocation{Setup: Setup{
		Settings: Settings{
			Coordinator: "mem://here", Stores: v.Stores, Journal: v.Journal, Redis: v.Redis,
			SessionTimeout: v.SessionTimeout, RaiseTimeout: leadertest.Patience,
			OnDisconnect: v.OnDisconnect, Grace: v.Grace, Margin: supervise.Margin(v.SessionTimeout),
			Holder: v.Holder, Claims: claims,
		},
		Output: "table", Env: append([]string{"PATH=" + os.Getenv("PATH")}, s.env...), Stores: s.stores,
		Journals: journals,
	}}
	does := map[string]func(*Invocation, context.Context) int{
		"show": (*Invocation).Show, "list": (*Invocation).List, "resume": (*Invocation).Resume,
		"restart": (*Invocation).Restart,
	}
	rest := args[1:]
	run := (*Invocation).Run
	if named, ok := does[rest[0]]; ok {
		run, rest = named, rest[1:]
	}
	if len(rest) >= 2 && rest[len(rest)-2] == "-o" {
		made.Output, rest = rest[len(rest)-1], rest[:len(rest)-2]
	}
	for _, target := range rest {
		if strings.Contains(target, "/") {
			made.Path = target
		} else {
			made.Name = checkpoint.Name(target)
		}
	}
	return made, run
}

// begin starts `leader task …`.
func begin(t *testing.T, s setup, args ...string) *taskCopy {
	t.Helper()
	l := &taskCopy{
		t: t, memory: s.memory, client: s.memory.Open(), out: leadertest.NewScreen(),
		log:     leadertest.NewScreen(),
		signals: make(chan os.Signal, 8), code: make(chan int, 1),
	}
	inv, run := s.invocation(t, args)
	inv.Stdout, inv.Stderr, inv.Coordinator = l.out, l.log, l.client
	inv.Log = slog.New(slog.NewJSONHandler(l.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.code <- l.life(ctx, inv, run)
	}()
	t.Cleanup(func() {
		cancel()
		if t.Failed() {
			t.Logf("stdout:\n%s\nstderr:\n%s", l.out, l.log)
			leadertest.Await(t, "the copy ends", ended) // and its command with it, which would run for ever
		}
	})
	return l
}

// life runs a copy, from reading the file to closing the coordinator.
func (l *taskCopy) life(
	ctx context.Context, inv *Invocation, run func(*Invocation, context.Context) int,
) int {
	defer l.client.Close()
	if err := inv.Load(true); err != nil {
		fmt.Fprintln(l.log, err)
		return cli.Usage
	}
	ctx, _, stop := supervise.Listen(ctx, func() (<-chan os.Signal, func()) {
		return l.signals, func() {
			close(l.signals)
		}
	})
	defer stop()
	return run(inv, ctx)
}

// exits waits for the end and checks the exit code.
func (l *taskCopy) exits(want int) { l.t.Helper(); leadertest.Exits(l.t, l.code, want) }

// pid waits for a line "name=number" of the command and returns the number.
func (l *taskCopy) pid(name string) int { l.t.Helper(); return l.out.PID(l.t, name) }

// queue returns the candidates for orders.
func (l *taskCopy) queue() []elector.Candidate {
	l.t.Helper()
	return leadertest.Queue(l.t, l.memory)
}

// depose deletes the leader's entry.
func (l *taskCopy) depose() { l.t.Helper(); leadertest.Depose(l.t, l.memory) }
