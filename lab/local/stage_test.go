package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
)

// heard has the events of workers.
type heard struct {
	mu  sync.Mutex
	all []history.Event
}

func (h *heard) take(e history.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, e)
}

// texts returns the texts of a worker's events that have a prefix.
func (h *heard) texts(worker, prefix string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []string
	for _, e := range h.all {
		if e.Process == worker && strings.HasPrefix(e.Text, prefix) {
			all = append(all, e.Text)
		}
	}
	return all
}

// ticked reports whether a worker has ticked after a time.
func (h *heard) ticked(worker string, after int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.ContainsFunc(h.all, func(e history.Event) bool {
		return e.Process == worker && e.Text == "tick" && e.At > after
	})
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("this did not happen: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// alive reports whether a process runs and is no zombie.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 100*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// built returns a system with stand-ins for workers. The end of the test closes it, and nothing of
// it may be left.
func built(t *testing.T, change func(*system.Build)) (*System, *heard) {
	t.Helper()
	h := &heard{}
	b := system.Build{
		// With long sessions, so that no leader loses its term.
		Topology: scenario.Topology{
			CoordinatorServers: 1, Guards: 1, Workers: 1, Session: 10 * time.Second,
		},
		Dir: t.TempDir(), Programs: programs, Events: h.take,
	}
	if change != nil {
		change(&b)
	}
	s, err := Build(limited(t), b)
	must.Succeed(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.Diagnose())
		}
		closeClean(t, s)
	})
	return s, h
}

func closeClean(t *testing.T, s *System) {
	t.Helper()
	var pids []int
	for _, p := range s.processes {
		if pid := p.PID(); pid != 0 {
			pids = append(pids, pid)
		}
	}
	start := time.Now()
	if err := s.Close(); err != nil {
		t.Error("close:", err)
	}
	if took := time.Since(start); took > time.Minute {
		t.Errorf("Close took %v", took)
	}
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %d lives on", pid)
		}
	}
	if left := s.tag.processes(); len(left) > 0 {
		t.Errorf("processes %v live on", left)
	}
}

func superuser(t *testing.T, ctx context.Context, s *System) *pgx.Conn {
	t.Helper()
	return pgtest.Connect(t, s.Addresses().Postgres)
}

// noToken checks that the worker's link leads to the guard, which refuses a session without a
// token.
func noToken(t *testing.T, ctx context.Context, s *System) {
	t.Helper()
	_, err := pgx.Connect(ctx, s.asApp(s.links[ends{"worker-1", "guard"}][0].Addr()))
	if pg, ok := errors.AsType[*pgconn.PgError](err); !ok || !strings.HasPrefix(pg.Code, "RF") {
		t.Errorf("a session without a token: %v", err)
	}
}

func status(t *testing.T, ctx context.Context, s *System) {
	t.Helper()
	out, err := s.Operator(ctx, "status", "-o", "json")
	must.Succeed(t, err)
	var stores []struct {
		Store string
		Ready bool
	}
	err = json.Unmarshal([]byte(out), &stores)
	if err != nil || len(stores) != 2 || !stores[0].Ready || !stores[1].Ready {
		t.Errorf("status: %v\n%s", err, out)
	}
	_, err = s.Operator(ctx, "forget")
	if err == nil || !strings.Contains(err.Error(), `unknown command "forget"`) {
		t.Errorf("an operator's mistake: %v", err)
	}
}
