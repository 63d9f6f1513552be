package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/checkpoint"
	cpg "github.com/ringfence/ringfence/checkpoint/postgres"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lab"
	"github.com/ringfence/ringfence/lab/flaw"
	"github.com/ringfence/ringfence/lab/history"
)

// TaskName is the task that the lab's workers run.
const TaskName checkpoint.Name = "settlement"

// tally is the task's state.
type tally struct {
	Steps int `json:"steps"`
}

// job is one worker's part in the task. Its steps and what it is told come from one goroutine.
type job struct {
	w           *worker
	s           *stand
	coordinator fence.Coordinator
	journal     *cpg.Journal
	world       *pgxpool.Pool // not fenced

	place string // of the failpoint
	nth   int    // step that it is in
	begun int    // steps so far

	attempt *history.Event        // its Invoke, until it has ended
	ran     int                   // how often the step's function was called in this attempt
	last    checkpoint.Checkpoint // that is known to be durable
}

// tasks stands for election until the task is done.
func (w *worker) tasks(ctx context.Context, coordinator fence.Coordinator, s *stand) error {
	open, cut := context.WithCancel(context.Background())
	defer cut()
	pool, err := w.pool("LAB_JOURNAL", w.c.Journal, open)
	if err != nil {
		return err
	}
	defer func() { cut(); pool.Close() }()
	world, err := w.pool("LAB_WORLD", w.c.World, open)
	if err != nil {
		return err
	}
	defer func() { cut(); world.Close() }()
	var asked fence.Observer
	if w.c.Route != lab.Guarded {
		asked = coordinator
	}
	j := cpg.New(pool, cpg.Options{Raiser: w.raiserPG(asked)})
	defer j.Close()

	b := &job{w: w, s: s, coordinator: coordinator, journal: j, world: world}
	b.place, b.nth, _ = w.c.failpoint()
	s.leaving, s.between = b.abandon, b.tooLate
	candidate := checkpoint.Runner[tally]{
		Lead:    fence.Lead{Elector: s, Resource: lab.Resource, Holder: w.c.Name},
		Journal: watched{j, b}, Observer: coordinator, Task: b.task(),
	}
	_, err = candidate.Run(ctx)
	s.leave()
	if err == nil {
		w.note("the task is done")
	}
	return err
}

func (b *job) task() checkpoint.Task[tally] {
	return checkpoint.Task[tally]{
		Name: TaskName, Rounds: b.w.c.Rounds, Notify: b.told,
		Steps: []checkpoint.Step[tally]{cpg.Step("book", b.book), {Name: "mail", Run: b.mail}},
		Retry: checkpoint.Retry{Attempts: 1 << 30, Backoff: checkpoint.Exponential(50*time.Millisecond, time.Second)},
	}
}

// book is a synchronous step.
func (b *job) book(ctx context.Context, tx pgx.Tx, t tally) (tally, error) {
	if b.ran++; b.ran > 1 { // the journal asks for it once more: nobody knows yet what became of the first
		again := *b.attempt
		b.ended(history.Unknown, "it is run once more")
		b.begin(again)
		b.ran = 1
	}
	b.reach("before effect")
	pause(ctx, b.w.c.Pause)
	e := b.attempt
	if _, err := tx.Exec(ctx, "insert into ledger (op, token, key) values ($1, $2, $3)", e.Op, int64(e.Token), e.Key); err != nil {
		return t, err
	}
	if b.w.steer.asked() {
		if _, err := tx.Exec(ctx, "update account set balance = balance + 1"); err != nil {
			return t, err
		}
		b.w.standInside(context.WithoutCancel(ctx))
	}
	b.reach("after effect")
	return tally{t.Steps + 1}, nil
}

// mail is an asynchronous step.
func (b *job) mail(ctx context.Context, t tally, key checkpoint.Key) (tally, error) {
	b.reach("before effect")
	pause(ctx, b.w.c.Pause)
	if _, err := b.world.Exec(ctx, "insert into world (key, token) values ($1, $2)", key.String(), int64(b.attempt.Token)); err != nil {
		return t, err
	}
	b.reach("after effect")
	return tally{t.Steps + 1}, nil
}

// reach ends the process if this is where the failpoint is.
func (b *job) reach(place string) {
	if place == b.place && b.begun == b.nth {
		b.w.note("failpoint %s", place)
		b.w.exit(ExitKilled)
	}
}

// told records what happens to the task.
func (b *job) told(e checkpoint.Event) {
	switch e.Kind {
	case checkpoint.TookOver:
		b.w.term(history.Ready, b.s.term.Claim(), "")
		b.w.note("took over at version %d: detection %s, election %s, raise %s, first step %s, reloaded %t", e.Checkpoint.Version,
			e.TakeOver.Detection, e.TakeOver.Election, e.TakeOver.Raise, e.TakeOver.FirstStep, e.TakeOver.Reloaded)
		b.last = e.Checkpoint
	case checkpoint.Began:
		b.begun++
		b.begin(history.Event{Key: e.Checkpoint.Key().String(), Sync: e.Step == "book", Token: b.s.term.Token(),
			Run: e.Checkpoint.Run, Round: e.Checkpoint.Round, Step: e.Checkpoint.Step})
	case checkpoint.Ended:
		b.ended(history.OK, "")
		b.last = e.Checkpoint
	case checkpoint.Retrying:
		b.failed(e.Err)
	case checkpoint.Interrupted:
		b.w.note("interrupted: %v", e.Err)
	case checkpoint.Halted:
		b.failed(e.Err)
		b.w.note("the task is stopped: %v", e.Err)
	}
}

// failed records the end of an attempt with an error of the step's own, which leaves nothing of a synchronous one.
func (b *job) failed(err error) {
	outcome := history.Unknown
	if b.attempt != nil && b.attempt.Sync {
		outcome = history.Failed
	}
	b.ended(outcome, err.Error())
}

func (b *job) begin(e history.Event) {
	e.Kind, e.Do, e.Process, e.Store, e.Task, e.Op = history.Invoke, history.Step, b.w.c.Name, "postgres", string(TaskName), b.w.op("s")
	e.At = 0
	b.attempt, b.ran = &e, 0
	b.w.say(e)
}

func (b *job) ended(o history.Outcome, text string) {
	if b.attempt == nil {
		return
	}
	e := *b.attempt
	e.Kind, e.Outcome, e.Text = history.Return, o, text
	b.w.say(e)
	b.attempt, b.ran = nil, 0
}

// abandon records that the term has ended before the attempt did.
func (b *job) abandon(last *fence.Term) {
	text := "the term is over"
	if last.State() == fence.Lost {
		text = lost(last)
	}
	b.ended(history.Unknown, text)
}

// tooLate is what a deposed leader of bad manners tries before it stands again, once its successor is at work: nothing of
// it may land.
func (b *job) tooLate(ctx context.Context, last *fence.Term) {
	if b.w.c.Manners == lab.Good && b.w.c.Flaw == "" || b.last.Version == 0 || errors.Is(context.Cause(last.Context()), fence.ErrResigned) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, raiseMost) // that long the successor may take until it is ready
	defer cancel()
	if err := b.successor(ctx, last.Token()); err != nil {
		b.w.note("makes no late attempt: %v", err)
		return
	}
	if b.w.c.Flaw == flaw.Unconditional {
		b.setBack(ctx)
		return
	}
	claim := last.Claim()
	b.write(ctx, claim, func(op string) error {
		return b.journal.Transact(ctx, claim, func(ctx context.Context, tx pgx.Tx) (checkpoint.Checkpoint, error) {
			_, err := tx.Exec(ctx, "insert into ledger (op, token) values ($1, $2)", op, int64(claim.Token))
			return b.next(claim), err
		})
	})
	b.write(ctx, claim, func(string) error { return b.journal.Publish(ctx, claim, b.next(claim)) })
}

// write records one write outside the task's steps. What finds a connection that its successor has ended tries again, for
// that is not an answer.
func (b *job) write(ctx context.Context, claim fence.Claim, write func(op string) error) {
	for ended := true; ended && ctx.Err() == nil; {
		e := history.Event{Kind: history.Invoke, Process: b.w.c.Name, Op: b.w.op("l"), Do: history.Write, Store: "postgres", Token: claim.Token}
		b.w.say(e)
		r := published(write(e.Op))
		e.Kind, e.Outcome, e.Text = history.Return, r.outcome, r.text()
		b.w.say(e)
		ended = errors.Is(r.err, checkpoint.ErrTransient)
		if ended {
			pause(ctx, 10*time.Millisecond)
		}
	}
}

// next is what a leader would publish next that has seen no end of its term. The step stays the same, so that it would do
// no harm of its own.
func (b *job) next(claim fence.Claim) checkpoint.Checkpoint {
	cp := b.last
	cp.Version++
	cp.Nonce, cp.Token, cp.Holder = b.w.op("n"), claim.Token, claim.Holder
	return cp
}

// successor waits until another term than this one leads and has raised the mark.
func (b *job) successor(ctx context.Context, t fence.Token) error {
	for {
		queue, err := b.coordinator.Candidates(ctx, lab.Resource)
		if err == nil && len(queue) > 0 && queue[0].Token != t && queue[0].Ready {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("nobody else leads within %s", raiseMost)
		}
		pause(ctx, 10*time.Millisecond)
	}
}
