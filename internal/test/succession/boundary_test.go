package succession

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
)

// boundary is a point in the execution of a step at which a process may end.
type boundary string

const (
	beforeEffect  boundary = "before effect"
	afterEffect   boundary = "after effect"   // nothing of the checkpoint was sent
	beforePublish boundary = "before publish" // the journal is about to send it
	duringCommit  boundary = "during commit"  // the bytes are sent, the answer is not read
	afterCommit   boundary = "after commit"
)

var boundaries = []boundary{beforeEffect, afterEffect, beforePublish, duringCommit, afterCommit}

// ending says how a process ends: at a boundary of the n-th step that it begins, by SIGKILL or
// SIGSTOP.
type ending struct {
	At     boundary
	Step   int
	Signal syscall.Signal
	Sends  int // duringCommit: at which write of the commit; a first one prepares statements

	begun   int
	pending atomic.Int64 // remaining writes
}

// reach ends the process if it has to end here.
func (e *ending) reach(at boundary) {
	if e.At == at && e.Step == e.begun {
		e.Step = -1 // once
		e.now()
	}
}

// now ends the process. After SIGSTOP it returns once the process is continued. The signal may stop
// another thread first, so now waits.
func (e *ending) now() {
	continued := make(chan os.Signal, 1)
	if e.Signal == syscall.SIGSTOP {
		signal.Notify(continued, syscall.SIGCONT)
		fmt.Println("stopping")
	}
	_ = syscall.Kill(os.Getpid(), e.Signal)
	<-continued
	signal.Stop(continued)
}

// wire is a connection that may end the process after a write.
type wire struct {
	net.Conn
	e *ending
}

func (w wire) Write(b []byte) (int, error) {
	n, err := w.Conn.Write(b)
	if w.e.pending.Load() > 0 && w.e.pending.Add(-1) == 0 {
		w.e.now()
	}
	return n, err
}

// dial opens connections of type wire.
func (e *ending) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	return wire{c, e}, err
}

// arm is called right before a commit is sent.
func (e *ending) arm() {
	e.reach(beforePublish)
	if e.At == duringCommit && e.Step == e.begun {
		e.Step = -1 // here, not in now, which may run in another goroutine
		e.pending.Store(int64(e.Sends))
	}
}

// landed is called when the commit was answered.
func (e *ending) landed(err error) {
	missed := e.pending.Swap(0) > 0 // the commit needed fewer writes
	if err == nil && missed {
		e.now()
	}
	if err == nil {
		e.reach(afterCommit)
	}
}

// watched is a journal that ends the process at its boundaries.
type watched struct {
	checkpoint.Journal
	e *ending
}

// Publish implements checkpoint.Journal.
func (w watched) Publish(ctx context.Context, c fence.Claim, cp checkpoint.Checkpoint) error {
	w.e.arm()
	err := w.Journal.Publish(ctx, c, cp)
	w.e.landed(err)
	return err
}

// watchedTransactor is watched for a journal with transactions.
type watchedTransactor struct {
	watched
	checkpoint.Transactor[pgx.Tx]
}

// Transact implements checkpoint.Transactor.
func (w watchedTransactor) Transact(
	ctx context.Context, c fence.Claim,
	work func(ctx context.Context, tx pgx.Tx) (checkpoint.Checkpoint, error),
) error {
	sent := false
	err := w.Transactor.Transact(ctx, c, func(
		ctx context.Context, tx pgx.Tx,
	) (checkpoint.Checkpoint, error) {
		cp, err := work(ctx, tx)
		if err == nil {
			w.e.arm()
			sent = true
		}
		return cp, err
	})
	if sent {
		w.e.landed(err)
	}
	return err
}
