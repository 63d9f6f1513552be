package check_test

import (
	"testing"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lab/check"
	"github.com/ringfence/ringfence/lab/history"
)

// also is a good run in which more happens.
func also(more func(b *jobRuns)) []history.Event {
	return handedOver(func(b *jobRuns) {
		b.moves("worker-2", "a", 2, history.JobDone)
		b.left("a", history.JobDone, 2)
		more(b)
	})
}

// cancels is a client's cancellation of a job that waits.
func (b *jobRuns) cancels(job string, attempt int) {
	b.cancel(job, func() { b.moves("submitter", job, attempt, history.JobCancelled) })
}

// doneBy is a job that is run to its end.
func (b *jobRuns) doneBy(worker, job string, attempt int, t fence.Token) {
	b.runs(worker, job, attempt, t, 1, 2)
	b.moves(worker, job, attempt, history.JobDone)
	b.left(job, history.JobDone, attempt)
}

// takesBack is a step that the assigner makes under its term.
func (b *jobRuns) takesBack(job string, attempt int, s history.State) {
	b.operation(history.Event{
		Process: "worker-4/jobs", Do: history.Change, Key: job, Attempt: attempt, State: s,
		Version: b.version[job], Resource: "jobs_lab", Token: 7,
	}, history.OK)
	b.version[job]++
}

// rounds is a job that repeats, of which one round has ended, in so many of its steps.
func (b *jobRuns) rounds(job string, counted int64, steps ...int) {
	b.submit(job)
	b.runs("worker-2", job, 1, 40, steps...)
	b.operation(history.Event{
		Process: "worker-2/jobs", Do: history.Change, Key: job, Attempt: 1, State: history.JobWaiting,
		Version: b.version[job], Round: counted, Resource: fence.Resource("job_" + job), Token: 40,
	}, history.OK)
	b.version[job]++
	b.cancel(job, func() {
		b.operation(history.Event{
			Process: "submitter/jobs", Do: history.Change, Key: job, Attempt: 1, State: history.JobCancelled,
			Version: b.version[job], Round: counted,
		}, history.OK)
	})
	b.held = append(b.held, history.Event{
		Kind: history.Job, Key: job, State: history.JobCancelled, Attempt: 1, Round: counted,
	})
}

func TestWhatClientsMayAskFor(t *testing.T) {
	for name, more := range map[string]func(b *jobRuns){
		"cancelled while it waits, and retried": func(b *jobRuns) {
			b.submit("c")
			b.cancels("c", 0)
			b.retry("c", 0)
			b.doneBy("worker-3", "c", 1, 30)
		},
		"cancelled while it runs": func(b *jobRuns) {
			b.submit("c")
			b.runs("worker-3", "c", 1, 30, 1)
			b.cancel("c", nil)
			b.step("worker-3", "c", 1, 30, 2, history.OK)
			b.moves("worker-3", "c", 1, history.JobCancelled)
			b.left("c", history.JobCancelled, 1)
		},
		"cancelled while it runs, and done": func(b *jobRuns) {
			b.submit("c")
			b.runs("worker-3", "c", 1, 30, 1, 2)
			b.cancel("c", nil)
			b.moves("worker-3", "c", 1, history.JobDone)
			b.left("c", history.JobDone, 1)
		},
		"cancelled, and its worker, which was only paused, writes": func(b *jobRuns) {
			b.submit("c")
			b.runs("worker-3", "c", 1, 30, 1)
			b.cancel("c", nil)
			b.takesBack("c", 1, history.JobCancelled)
			b.step("worker-3", "c", 1, 30, 2, history.OK)
			b.left("c", history.JobCancelled, 1)
		},
		"failed, as it should, and retried": func(b *jobRuns) {
			b.hands(history.Event{Key: "c", State: history.JobFailed})
			for attempt, token := range []fence.Token{30, 31} {
				b.runs("worker-3", "c", attempt+1, token)
				b.moves("worker-3", "c", attempt+1, history.JobFailed)
				if attempt == 0 {
					b.retry("c", 1)
				}
			}
			b.left("c", history.JobFailed, 2)
		},
		"failed, and retried without an answer": func(b *jobRuns) {
			b.hands(history.Event{Key: "c", State: history.JobFailed})
			b.runs("worker-3", "c", 1, 30)
			b.moves("worker-3", "c", 1, history.JobFailed)
			b.change("submitter", "c", 1, history.JobWaiting, b.version["c"], history.Unknown)
			b.version["c"]++
			b.runs("worker-3", "c", 2, 31)
			b.moves("worker-3", "c", 2, history.JobFailed)
			b.left("c", history.JobFailed, 2)
		},
		"one key, one after the other": func(b *jobRuns) {
			b.hands(history.Event{Key: "c", Unique: "key"})
			b.calls(history.Event{Do: history.Submit, Key: "c", Unique: "key", Step: jobSteps}, nil)
			b.doneBy("worker-3", "c", 1, 30)
			b.hands(history.Event{Key: "d", Unique: "key"})
			b.doneBy("worker-3", "d", 1, 31)
		},
		"repeated": func(b *jobRuns) { b.rounds("c", 1, 1, 2) },
	} {
		t.Run(name, func(t *testing.T) { wantVerdict(t, judge(t, also(more)), check.Valid) })
	}
}

func TestBrokenPromisesToClients(t *testing.T) {
	for name, more := range map[string]func(b *jobRuns){
		"nobody has cancelled it": func(b *jobRuns) {
			b.submit("c")
			b.takesBack("c", 0, history.JobCancelled)
			b.left("c", history.JobCancelled, 0)
		},
		"cancelled before it was retried": func(b *jobRuns) {
			b.submit("c")
			b.runs("worker-3", "c", 1, 30, 1)
			b.cancel("c", nil)
			b.moves("worker-3", "c", 1, history.JobCancelled)
			b.retry("c", 1)
			b.takesBack("c", 1, history.JobCancelled)
			b.left("c", history.JobCancelled, 1)
		},
		"cancelled, and assigned": func(b *jobRuns) {
			b.submit("c")
			b.cancels("c", 0)
			b.doneBy("worker-3", "c", 1, 30)
		},
		"cancelled while it waits, and assigned later": func(b *jobRuns) {
			b.submit("c")
			b.cancel("c", nil)
			b.doneBy("worker-3", "c", 1, 30)
		},
		"done, and cancelled": func(b *jobRuns) {
			b.submit("c")
			b.runs("worker-3", "c", 1, 30, 1, 2)
			b.moves("worker-3", "c", 1, history.JobDone)
			b.cancels("c", 1)
			b.left("c", history.JobCancelled, 1)
		},
		"an effect after the end": func(b *jobRuns) {
			b.submit("c")
			b.runs("worker-3", "c", 1, 30, 1)
			b.cancels("c", 1)
			b.step("worker-3", "c", 1, 30, 2, history.OK)
			b.left("c", history.JobCancelled, 1)
		},
		"an effect without a start": func(b *jobRuns) {
			b.submit("c")
			b.moves("worker-3", "c", 1, history.JobAssigned)
			b.step("worker-3", "c", 1, 30, 1, history.OK)
			b.cancel("c", nil)
			b.moves("worker-3", "c", 1, history.JobCancelled)
			b.left("c", history.JobCancelled, 1)
		},
		"done, and each try has failed": func(b *jobRuns) {
			b.hands(history.Event{Key: "c", State: history.JobFailed})
			b.doneBy("worker-3", "c", 1, 30)
		},
		"two jobs have one key": func(b *jobRuns) {
			b.hands(history.Event{Key: "c", Unique: "key"})
			b.hands(history.Event{Key: "d", Unique: "key"})
			b.doneBy("worker-3", "c", 1, 30)
			b.doneBy("worker-3", "d", 1, 31)
		},
		"a retried job has a key that another one has": func(b *jobRuns) {
			b.hands(history.Event{Key: "c", Unique: "key"})
			b.cancels("c", 0)
			b.hands(history.Event{Key: "d", Unique: "key"})
			b.retry("c", 0)
			b.doneBy("worker-3", "d", 1, 31)
			b.doneBy("worker-3", "c", 1, 30)
		},
		"a submission returns a job that has ended": func(b *jobRuns) {
			b.hands(history.Event{Key: "c", Unique: "key"})
			b.doneBy("worker-3", "c", 1, 30)
			b.calls(history.Event{Do: history.Submit, Key: "c", Unique: "key", Step: jobSteps}, nil)
		},
		"a submission returns a job with another key": func(b *jobRuns) {
			b.hands(history.Event{Key: "c", Unique: "key"})
			b.calls(history.Event{Do: history.Submit, Key: "c", Unique: "another", Step: jobSteps}, nil)
			b.doneBy("worker-3", "c", 1, 30)
		},
		"a round lacks an effect": func(b *jobRuns) { b.rounds("c", 1, 1) },
		"a round counts twice":    func(b *jobRuns) { b.rounds("c", 2, 1, 2) },
	} {
		t.Run(name, func(t *testing.T) { wantInvariants(t, judge(t, also(more)), "I5") })
	}
}
