package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/pgjournal"
	"github.com/ringfence/ringfence/checkpoint/taskevent"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/lab/flaw"
	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/scenario"
)

// TaskName is the task that the lab's workers run.
const TaskName checkpoint.Name = "settlement"

// state is the task's state.
type state struct {
	Steps int `json:"steps"`
}

// taskWorker is one worker's part in the task. One goroutine runs its steps and its notifications.
type taskWorker struct {
	w           *worker
	elector     *recordingElector
	coordinator elector.Coordinator
	journal     *pgjournal.Journal
	world       *pgxpool.Pool // not fenced

	place string // of the failpoint
	nth   int    // the step of the failpoint
	begun int    // steps so far

	attempt *history.Event        // its Invoke, until it has ended
	ran     int                   // how often the step's function was called in this attempt
	last    checkpoint.Checkpoint // the last that is known to be durable
}

// tasks stands for election until the task is done.
func (w *worker) tasks(
	ctx context.Context, coordinator elector.Coordinator, e *recordingElector,
) error {
	open, closeSockets := context.WithCancel(context.Background())
	defer closeSockets()
	pool, err := w.pool("LAB_JOURNAL", w.c.Journal, open)
	if err != nil {
		return err
	}
	defer func() { closeSockets(); pool.Close() }()
	world, err := w.pool("LAB_WORLD", w.c.World, open)
	if err != nil {
		return err
	}
	defer func() { closeSockets(); world.Close() }()
	var observer elector.Observer // guards have their own
	if w.c.Route != scenario.Guarded {
		observer = coordinator
	}
	raiser := w.raiserPG(observer)
	defer closeRaisers([]fence.Raiser{raiser})
	j := pgjournal.New(pool, pgjournal.Options{Raiser: raiser})
	defer j.Close()

	b := &taskWorker{w: w, elector: e, coordinator: coordinator, journal: j, world: world}
	b.place, b.nth, _ = w.c.failpoint()
	e.leaving, e.between = b.abandon, b.lateAttempts
	runner := checkpoint.Runner[state]{
		Lead:    fence.Lead{Elector: e, Resource: scenario.Resource, Holder: w.c.Name},
		Journal: failpointJournal{j, b}, Observer: coordinator, Task: b.task(),
	}
	_, err = runner.Run(ctx)
	e.leave()
	if err == nil {
		w.note("the task is done")
	}
	return err
}

func (b *taskWorker) task() checkpoint.Task[state] {
	return checkpoint.Task[state]{
		Name: TaskName, Rounds: b.w.c.Rounds, Notify: b.notified,
		Steps: []checkpoint.Step[state]{pgjournal.Step("book", b.book), {Name: "mail", Run: b.mail}},
		Retry: checkpoint.Retry{
			Attempts: 1 << 30, Backoff: checkpoint.Exponential(50*time.Millisecond, time.Second),
		},
	}
}

// book is a synchronous step.
func (b *taskWorker) book(ctx context.Context, tx pgx.Tx, t state) (state, error) {
	if b.ran++; b.ran > 1 { // the journal repeats it: the outcome of the first run is not known yet
		again := *b.attempt
		b.ended(history.Unknown, "it is run once more")
		b.begin(again)
		b.ran = 1
	}
	b.reach("before effect")
	pause(ctx, b.w.c.Pause)
	e := b.attempt
	_, err := tx.Exec(ctx, "insert into ledger (op, token, key) values ($1, $2, $3)",
		e.Op, int64(e.Token), e.Key)
	if err != nil {
		return t, err
	}
	if b.w.signals.stopRequested() {
		if _, err := tx.Exec(ctx, "update account set balance = balance + 1"); err != nil {
			return t, err
		}
		b.w.waitInside(context.WithoutCancel(ctx))
	}
	b.reach("after effect")
	return state{t.Steps + 1}, nil
}

// mail is an asynchronous step.
func (b *taskWorker) mail(ctx context.Context, t state, key checkpoint.Key) (state, error) {
	b.reach("before effect")
	pause(ctx, b.w.c.Pause)
	_, err := b.world.Exec(ctx, "insert into world (key, token) values ($1, $2)",
		key.String(), int64(b.attempt.Token))
	if err != nil {
		return t, err
	}
	b.reach("after effect")
	return state{t.Steps + 1}, nil
}

// reach ends the process if the failpoint is here.
func (b *taskWorker) reach(place string) {
	if place == b.place && b.begun == b.nth {
		b.w.note("%s%s", history.Failpoint, place)
		b.w.exit(ExitKilled)
	}
}

// notified records what happens to the task.
func (b *taskWorker) notified(e checkpoint.Event) {
	cp := e.Checkpoint
	switch e.Kind {
	case taskevent.TookOver:
		b.w.term(history.Ready, b.elector.term.Claim(), "")
		t := e.TakeOver
		b.w.note("took over at version %d: detection %s, election %s, raise %s, first step %s, "+
			"reloaded %t", cp.Version, t.Detection, t.Election, t.Raise, t.FirstStep, t.Reloaded)
		b.last = cp
	case taskevent.Began:
		b.begun++
		b.begin(history.Event{
			Key: cp.Key().String(), Sync: e.Step == "book", Token: b.elector.term.Token(),
			Run: cp.Run, Round: cp.Round, Step: cp.Step,
		})
	case taskevent.Ended:
		b.ended(history.OK, "")
		b.last = cp
	case taskevent.Retrying:
		b.failed(e.Err)
	case taskevent.Interrupted:
		b.w.note("interrupted: %v", e.Err)
	case taskevent.Halted:
		b.failed(e.Err)
		b.w.note("the task is stopped: %v", e.Err)
	}
}

// failed records an attempt that ended with an error of the step. A synchronous step then has had
// no effect.
func (b *taskWorker) failed(err error) {
	outcome := history.Unknown
	if b.attempt != nil && b.attempt.Sync {
		outcome = history.Failed
	}
	b.ended(outcome, err.Error())
}

func (b *taskWorker) begin(e history.Event) {
	e.Kind, e.Do, e.Op = history.Invoke, history.Step, b.w.op("s")
	e.Process, e.Store, e.Task = b.w.c.Name, "postgres", string(TaskName)
	e.At = 0
	b.attempt, b.ran = &e, 0
	b.w.emit(e)
}

func (b *taskWorker) ended(o history.Outcome, text string) {
	if b.attempt == nil {
		return
	}
	e := *b.attempt
	e.Kind, e.Outcome, e.Text = history.Return, o, text
	b.w.emit(e)
	b.attempt, b.ran = nil, 0
}

// abandon records that the term has ended before the attempt.
func (b *taskWorker) abandon(last *fence.Term) {
	text := "the term is over"
	if last.State() == fence.Lost {
		text = lost(last)
	}
	b.ended(history.Unknown, text)
}

// lateAttempts are the writes of a reckless deposed leader, before it stands again and once its
// successor works. Nothing of them may be committed.
func (b *taskWorker) lateAttempts(ctx context.Context, last *fence.Term) {
	resigned := errors.Is(context.Cause(last.Context()), fence.ErrResigned)
	if b.w.isGood(last) && b.w.c.Flaw == "" || b.last.Version == 0 || resigned {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, raiseTime) // for the successor to become ready
	defer cancel()
	if err := b.successor(ctx, last.Token()); err != nil {
		b.w.note("makes no late attempt: %v", err)
		return
	}
	if b.w.c.Flaw == flaw.Unconditional {
		b.publishLate(ctx)
		return
	}
	claim := last.Claim()
	b.write(ctx, claim, func(op string) error {
		insert := func(ctx context.Context, tx pgx.Tx) (checkpoint.Checkpoint, error) {
			_, err := tx.Exec(ctx, "insert into ledger (op, token) values ($1, $2)",
				op, int64(claim.Token))
			return b.next(claim), err
		}
		return b.journal.Transact(ctx, claim, insert)
	})
	b.write(ctx, claim, func(string) error { return b.journal.Publish(ctx, claim, b.next(claim)) })
}

// write does and records one write outside the task's steps. It retries if the connection was ended
// by a successor, because that is not an answer.
func (b *taskWorker) write(ctx context.Context, claim fence.Claim, write func(op string) error) {
	for ended := true; ended && ctx.Err() == nil; {
		r := b.w.record(history.Event{
			Process: b.w.c.Name, Op: b.w.op("l"), Do: history.Write, Store: "postgres",
			Token: claim.Token,
		}, func(op string) result { return published(write(op)) })
		ended = errors.Is(r.err, checkpoint.ErrTransient)
		if ended {
			pause(ctx, 10*time.Millisecond)
		}
	}
}

// next returns what a leader would publish next if it had not noticed the end of its term. The step
// stays the same, so that the checkpoint itself would do no harm.
func (b *taskWorker) next(claim fence.Claim) checkpoint.Checkpoint {
	cp := b.last
	cp.Version++
	cp.Nonce, cp.Token, cp.Holder = b.w.op("n"), claim.Token, claim.Holder
	return cp
}

// successor waits until another term than this one leads and has raised the mark.
func (b *taskWorker) successor(ctx context.Context, t fence.Token) error {
	for {
		queue, err := b.coordinator.Candidates(ctx, scenario.Resource)
		if err == nil && len(queue) > 0 && queue[0].Token != t && queue[0].Ready {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("nobody else leads within %s", raiseTime)
		}
		pause(ctx, 10*time.Millisecond)
	}
}
