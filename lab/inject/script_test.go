package inject

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/record"
	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
	"github.com/ringfence/ringfence/lab/traffic"
)

// patience bounds the wait for something that has to happen.
const patience = 30 * time.Second

// script is a System that only records its calls.
type script struct {
	mu    sync.Mutex
	calls []string
	fails string // the call that fails
	leads string // the coordinator's server; zookeeper-2 when empty
	rec   *record.Recorder

	starting chan struct{} // Start returns once it is closed; may be nil
}

func (s *script) call(words ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := strings.Join(words, " ")
	s.calls = append(s.calls, text)
	if s.fails != "" && text == s.fails {
		return errors.New("as told")
	}
	return nil
}

// until waits for a call.
func (s *script) until(t *testing.T, what string) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		s.mu.Lock()
		done := slices.Contains(s.calls, what)
		s.mu.Unlock()
		if done {
			return
		}
	}
	t.Fatalf("there was no call %q: %q", what, s.calls)
}

func (s *script) Kill(_ context.Context, p string) error { return s.call("kill", p) }
func (s *script) Start(_ context.Context, p string) error {
	err := s.call("start", p)
	if s.starting != nil {
		<-s.starting
	}
	return err
}
func (s *script) Stop(_ context.Context, p string) error     { return s.call("stop", p) }
func (s *script) Pause(_ context.Context, p string) error    { return s.call("pause", p) }
func (s *script) Resume(_ context.Context, p string) error   { return s.call("resume", p) }
func (s *script) Wipe(context.Context) error                 { return s.call("wipe") }
func (s *script) Backup(_ context.Context, p string) error   { return s.call("backup", p) }
func (s *script) Restore(_ context.Context, p string) error  { return s.call("restore", p) }
func (s *script) SwitchOver(context.Context) error           { return s.call("switch over") }
func (s *script) Turn(_ context.Context, p, to string) error { return s.call("turn", p, to) }
func (s *script) Clog(_ context.Context, p string) error     { return s.call("clog", p) }
func (s *script) Unclog(_ context.Context, p string) error   { return s.call("unclog", p) }
func (s *script) Addresses() system.Addresses                { return system.Addresses{} }
func (s *script) Diagnose() string                           { return "" }
func (s *script) Close() error                               { return s.call("close") }
func (s *script) CoordinatorLeader(context.Context) (string, error) {
	return cmp.Or(s.leads, "zookeeper-2"), s.call("who leads")
}
func (s *script) Operator(_ context.Context, args ...string) (string, error) {
	return "", s.call(append([]string{"guard"}, args...)...)
}
func (s *script) Signal(_ context.Context, p string, sig syscall.Signal) error {
	if sig == syscall.SIGUSR1 {
		s.rec.Add(history.Event{
			Kind: history.Fault, Fault: string(scenario.Inside), State: history.Begin, Process: p,
		})
	}
	return s.call("signal", p, sig.String())
}
func (s *script) Shape(_ context.Context, p, peer string, shape system.Shape) error {
	if shape == (system.Shape{}) {
		return s.call("heal", p, peer)
	}
	return s.call("shape", p, peer)
}

// term records an event of a worker's term.
func (r *Injector) term(worker string, state history.State, token fence.Token) {
	r.rec.Add(history.Event{Kind: history.Term, Process: worker, State: state, Token: token})
}

// job records that a worker leads a job.
func (r *Injector) job(worker, id string, token fence.Token) {
	r.rec.Add(history.Event{
		Kind: history.Term, Process: worker, State: history.Ready, Token: token, Key: id,
		Resource: fence.Resource("job_" + id),
	})
}

// ended records that a worker's process has ended.
func (r *Injector) ended(worker, how string) {
	r.rec.Add(history.Event{Kind: history.Note, Process: worker, Text: history.Ended + how})
}

// scripted returns a run on a script, in which worker-1 leads and worker-2 is a standby.
func scripted() (*Injector, *script) {
	rec := record.New(history.NewWriter(io.Discard))
	s := &script{rec: rec}
	r := New(scenario.Scenario{
		Topology: scenario.Topology{CoordinatorServers: 3, Guards: 2, Workers: 2},
	}, s, rec, 1)
	r.term("worker-1", history.Ready, 5)
	r.term("worker-2", history.Standing, 0)
	r.job("worker-1", "a", 6)
	rec.Add(history.Event{
		Kind: history.Term, Process: "worker-2", State: history.Ready, Token: 7,
		Resource: traffic.Assigner,
	})
	return r, s
}

func within(t *testing.T, limit time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

func (s *script) Primary(context.Context) (string, error) { return scenario.Postgres1, nil }

func (s *script) MakePrimary(_ context.Context, p string) error { return s.call("promote", p) }
func (s *script) Crash(_ context.Context, p string) error       { return s.call("crash", p) }
