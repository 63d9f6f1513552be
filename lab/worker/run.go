package worker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/internal/coordinators"
	"github.com/ringfence/ringfence/lab/flaw"
	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
)

// Exit codes of Run.
const (
	ExitDone    = 0   // told to end, or the task is done
	ExitFailed  = 1   // an error that retrying cannot fix, which errs has
	ExitDeposed = 3   // Commands: both stores have refused the token as stale
	ExitKilled  = 137 // a failpoint was reached: the code of a killed process
)

// worker is one process under test.
type worker struct {
	c       Config
	emit    func(history.Event)
	signals *signals
	id      string       // of this start of the process: operations are unique across restarts
	ops     atomic.Int64 // begun so far
	exit    func(code int)

	choices *choices    // on the path SQL
	first   fence.Token // of the process's first term
	reached atomic.Bool // whether the coordinator was reached
	watches sync.WaitGroup
}

// Run runs the worker until ctx ends and returns an exit code. It writes its history to out, and
// why it cannot continue to errs.
func Run(ctx context.Context, c Config, out, errs io.Writer) int {
	emit, stopEmitting := newEmitter(c, out)
	defer stopEmitting()
	signals, stopSignals := catchSignals()
	defer stopSignals()
	return newWorker(c, emit, signals).run(ctx, errs)
}

func newWorker(c Config, emit func(history.Event), signals *signals) *worker {
	id := strings.ToLower(rand.Text()[:5])
	return &worker{c: c, emit: emit, signals: signals, id: id, exit: exit, choices: newChoices(c)}
}

func (w *worker) run(ctx context.Context, errs io.Writer) int {
	stopLive, err := w.live()
	if err != nil {
		_, _ = fmt.Fprintln(errs, err)
		return ExitFailed
	}
	defer stopLive()
	code := ExitDone
	switch {
	case w.c.Kind == scenario.Commands && w.c.Child == Fork:
		code, err = w.fork(ctx, errs)
	case w.c.Kind == scenario.Commands:
		code = w.command(ctx)
	default:
		err = w.lead(ctx)
	}
	if err != nil && ctx.Err() == nil {
		w.note("ends: %v", err)
		_, _ = fmt.Fprintln(errs, err)
		return ExitFailed
	}
	return code
}

// lead stands for election until ctx ends or the work is done.
func (w *worker) lead(ctx context.Context) error {
	if w.c.Route == scenario.SQL {
		return w.leadBySQL(ctx)
	}
	if w.c.Agent != "" {
		return w.leadByAgent(ctx)
	}
	coordinator, err := w.coordinator(ctx)
	if err != nil {
		return err
	}
	defer coordinator.Close()
	if w.c.Kind == scenario.Jobs {
		defer w.watches.Wait()
		return w.jobs(ctx, coordinator)
	}
	e := &recordingElector{Elector: coordinator, w: w}
	if w.c.ClockJump != 0 {
		j := &jumpingElector{
			Elector: coordinator, timeout: w.c.Session, clock: w.signals.clock(w.c.ClockJump),
		}
		defer j.following.Wait()
		e.Elector = j
	}
	defer w.watches.Wait()
	if w.c.Kind == scenario.Tasks {
		return w.tasks(ctx, coordinator, e)
	}
	return w.ledger(ctx, coordinator, e)
}

// retry is the time between attempts.
const retry = 200 * time.Millisecond

// coordinator connects to the coordinator, and retries until ctx ends.
func (w *worker) coordinator(ctx context.Context) (documents.Coordinator, error) {
	for {
		options := coordinators.Options{SessionTimeout: w.c.Session}
		co, err := system.OpenCoordinator(ctx, w.c.Coordinator, options)
		if err == nil {
			w.reached.Store(true)
			return co, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		w.note("the coordinator cannot be reached, trying again: %v", err)
		pause(ctx, retry)
	}
}

// pause waits, but not beyond the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// op names the next operation; kind is one letter.
func (w *worker) op(kind string) string {
	return fmt.Sprintf("%s.%s.%s%d", w.c.Name, w.id, kind, w.ops.Add(1))
}

// record does an operation, and emits its Invoke before and its Return after it.
func (w *worker) record(e history.Event, do func(op string) result) result {
	e.Kind = history.Invoke
	w.emit(e)
	r := do(e.Op)
	e.Kind, e.Outcome, e.Text = history.Return, r.outcome, r.text()
	w.emit(e)
	return r
}

func (w *worker) note(format string, args ...any) {
	w.emit(history.Event{
		Kind: history.Note, Process: w.c.Name, Text: fmt.Sprintf(format, args...),
	})
}

func (w *worker) term(state history.State, c fence.Claim, text string) {
	w.emit(history.Event{
		Kind: history.Term, Process: w.c.Name, State: state, Token: c.Token, Issuer: c.Issuer,
		Text: text,
	})
}

// carried returns the claim that connections carry: with the flaw, that of the first term.
func (w *worker) carried(c fence.Claim) fence.Claim {
	if w.c.Flaw == flaw.FirstToken && w.first != 0 {
		c.Token = w.first
	}
	return c
}

// lost returns the cause of a lost term, in one line.
func lost(term *fence.Term) string {
	return strings.ReplaceAll(context.Cause(term.Context()).Error(), "\n", "; ")
}

// ignoreLost returns err, or nil if it only says that a term was lost.
func ignoreLost(err error) error {
	if errors.Is(err, fence.ErrLost) {
		return nil
	}
	return err
}
