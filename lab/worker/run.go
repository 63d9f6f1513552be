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
	"github.com/ringfence/ringfence/fence/zookeeper"
	"github.com/ringfence/ringfence/lab"
	"github.com/ringfence/ringfence/lab/flaw"
	"github.com/ringfence/ringfence/lab/history"
)

// Exit codes of Run.
const (
	ExitDone    = 0   // asked to end, or the task is done
	ExitFailed  = 1   // what it met will not go away by itself; it is said on errs
	ExitDeposed = 3   // Commands: both stores have refused the token as stale
	ExitKilled  = 137 // a failpoint was reached: as of a process that was killed
)

// worker is one process under test.
type worker struct {
	c     Config
	say   func(history.Event)
	steer *steering
	id    string       // of this start of the process: operations are unique across restarts
	ops   atomic.Int64 // begun so far
	exit  func(code int)

	first   fence.Token // of the process's first term
	reached atomic.Bool // the coordinator, once
	watches sync.WaitGroup
}

// Run is the worker until ctx ends. It says what it does on out, and on errs why it cannot go on. It returns an exit code.
func Run(ctx context.Context, c Config, out, errs io.Writer) int {
	say, stopSaying := speak(c, out)
	defer stopSaying()
	steer, stopSteering := steered()
	defer stopSteering()
	return newWorker(c, say, steer).run(ctx, errs)
}

func newWorker(c Config, say func(history.Event), steer *steering) *worker {
	return &worker{c: c, say: say, steer: steer, id: strings.ToLower(rand.Text()[:5]), exit: exit}
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
	case w.c.Kind == lab.Commands && w.c.Child == Fork:
		code, err = w.fork(ctx, errs)
	case w.c.Kind == lab.Commands:
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

// lead stands for election, for as long as there is something to do.
func (w *worker) lead(ctx context.Context) error {
	coordinator, err := w.coordinator(ctx)
	if err != nil {
		return err
	}
	defer coordinator.Close()
	var elector fence.Elector = coordinator
	if w.c.ClockJump != 0 {
		j := &jumpy{Elector: elector, timeout: w.c.Session, clock: w.steer.clock(w.c.ClockJump)}
		defer j.following.Wait()
		elector = j
	}
	s := &stand{Elector: elector, w: w}
	defer w.watches.Wait()
	if w.c.Kind == lab.Tasks {
		return w.tasks(ctx, coordinator, s)
	}
	return w.ledger(ctx, coordinator, s)
}

// retry is how long the worker waits before it tries again what has failed.
const retry = 200 * time.Millisecond

// coordinator connects, for as long as that takes.
func (w *worker) coordinator(ctx context.Context) (*zookeeper.Coordinator, error) {
	for {
		co, err := zookeeper.Open(ctx, w.c.Coordinator, zookeeper.Options{SessionTimeout: w.c.Session})
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

// pause waits, at most until ctx ends.
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

func (w *worker) note(format string, args ...any) {
	w.say(history.Event{Kind: history.Note, Process: w.c.Name, Text: fmt.Sprintf(format, args...)})
}

func (w *worker) term(state history.State, c fence.Claim, text string) {
	w.say(history.Event{Kind: history.Term, Process: w.c.Name, State: state, Token: c.Token, Issuer: c.Issuer, Text: text})
}

// carried is the token that connections of this term carry.
func (w *worker) carried(c fence.Claim) fence.Claim {
	if w.c.Flaw == flaw.FirstToken {
		c.Token = w.first
	}
	return c
}

// lost is the cause of a lost term, in one line.
func lost(term *fence.Term) string {
	return strings.ReplaceAll(context.Cause(term.Context()).Error(), "\n", "; ")
}

// unless is err, but nil when it says nothing but that a term was lost.
func unless(err error) error {
	if errors.Is(err, fence.ErrLost) {
		return nil
	}
	return err
}
