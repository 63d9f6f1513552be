package check_test

import (
	"cmp"
	"fmt"
	"testing"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lab/check"
	"github.com/ringfence/ringfence/lab/history"
)

// jobSteps is how many steps each job of these tests has.
const jobSteps = 2

// jobRuns writes histories of jobs.
type jobRuns struct {
	*builder
	version map[string]int64 // of each job's status
}

func newJobRuns() *jobRuns {
	b := newBuilder()
	b.header.Expect = history.Expect{
		Changes: 1, Stale: 1, Before: 2, Jobs: 2, TakenBack: 1, Late: 1,
	}
	return &jobRuns{b, map[string]int64{}}
}

func (b *jobRuns) operation(e history.Event, o history.Outcome) {
	b.ops++
	e.Kind, e.Op = history.Invoke, fmt.Sprintf("op-%d", b.ops)
	b.add(e)
	b.answers(e, o)
}

func (b *jobRuns) answers(e history.Event, o history.Outcome) {
	e.Kind, e.Outcome = history.Return, o
	if e.Do == history.Change && o == history.OK {
		e.Made = cmp.Or(e.Made, e.Version+1)
	}
	b.add(e)
}

func (b *jobRuns) submit(job string) { b.hands(history.Event{Key: job}) }

// hands hands a job in.
func (b *jobRuns) hands(e history.Event) {
	e.Do, e.Step = history.Submit, jobSteps
	b.calls(e, func() { b.moves("submitter", e.Key, 0, history.JobWaiting) })
}

// calls is a call of a client, and what happens until it returns.
func (b *jobRuns) calls(e history.Event, meanwhile func()) {
	b.ops++
	e.Kind, e.Process, e.Op = history.Invoke, "submitter", fmt.Sprintf("op-%d", b.ops)
	b.add(e)
	if meanwhile != nil {
		meanwhile()
	}
	b.answers(e, history.OK)
}

func (b *jobRuns) cancel(job string, meanwhile func()) {
	b.calls(history.Event{Do: history.Cancel, Key: job}, meanwhile)
}

// retry makes a job that has ended in an attempt wait again.
func (b *jobRuns) retry(job string, attempt int) {
	b.calls(history.Event{Do: history.Retry, Key: job}, func() {
		b.moves("submitter", job, attempt, history.JobWaiting)
	})
}

// change makes a step of a job's life from a version of its status.
func (b *jobRuns) change(
	worker, job string, attempt int, s history.State, version int64, o history.Outcome,
) {
	under := fence.Resource("job_" + job)
	if s == history.JobAssigned {
		under = history.Assigner
	}
	b.operation(history.Event{
		Process: worker + "/jobs", Do: history.Change, Key: job, Attempt: attempt, State: s,
		Version: version, Text: worker, Resource: under,
	}, o)
}

// moves makes a step from the job's present status.
func (b *jobRuns) moves(worker, job string, attempt int, s history.State) {
	b.change(worker, job, attempt, s, b.version[job], history.OK)
	b.version[job]++
}

// runs is a worker that gets a job and runs some of its steps.
func (b *jobRuns) runs(worker, job string, attempt int, t fence.Token, steps ...int) {
	b.moves(worker, job, attempt, history.JobAssigned)
	b.moves(worker, job, attempt, history.JobRunning)
	b.raise(worker, job, t)
	b.add(history.Event{
		Kind: history.Term, Process: worker, State: history.Ready, Token: t, Key: job,
		Resource: fence.Resource("job_" + job),
	})
	for _, n := range steps {
		b.step(worker, job, attempt, t, n, history.OK)
	}
}

func (b *jobRuns) raise(worker, job string, t fence.Token) {
	b.operation(history.Event{
		Process: worker + "/postgres", Do: history.Raise, Store: pg, Token: t,
		Resource: fence.Resource("job_" + job),
	}, history.OK)
}

// step is one transaction for a step. Its effect is committed if that is known.
func (b *jobRuns) step(
	worker, job string, attempt int, t fence.Token, n int, o history.Outcome,
) {
	e := history.Event{
		Process: worker + "/job 1", Do: history.Step, Store: pg, Token: t, Attempt: attempt, Sync: true,
		Key: fmt.Sprintf("%s/1/1/step-%d", job, n), Resource: fence.Resource("job_" + job),
	}
	if o == history.OK {
		b.place[pg]++
		b.held = append(b.held, history.Event{
			Kind: history.Effect, Key: e.Key, Store: pg, Token: t, Carried: t, Sync: true,
			Resource: e.Resource, Place: b.place[pg],
		})
	}
	b.operation(e, o)
}

// left is what the coordinator has after the run.
func (b *jobRuns) left(job string, s history.State, attempt int) {
	b.held = append(b.held, history.Event{
		Kind: history.Job, Key: job, State: s, Attempt: attempt,
	})
}

// handedOver is a good run: worker-1 is paused in job a, which worker-2 then does, and neither the
// writes nor the completion of worker-1 are accepted. Job b is done at once.
func handedOver(ending func(b *jobRuns)) []history.Event {
	b := newJobRuns()
	b.submit("a")
	b.submit("b")
	b.runs("worker-2", "b", 1, 11, 1, 2)
	b.moves("worker-2", "b", 1, history.JobDone)
	b.runs("worker-1", "a", 1, 10, 1)
	b.fault("pause busy worker #1", "worker-1", history.Begin)
	b.moves("worker-2", "a", 1, history.JobWaiting)
	b.runs("worker-2", "a", 2, 20, 2)
	b.fault("pause busy worker #1", "worker-1", history.Over)
	b.step("worker-1", "a", 1, 10, 1, history.Stale)
	b.change("worker-1", "a", 1, history.JobDone, 3, history.Refused)
	b.left("b", history.JobDone, 1)
	if ending == nil {
		ending = func(b *jobRuns) {
			b.moves("worker-2", "a", 2, history.JobDone)
			b.left("a", history.JobDone, 2)
		}
	}
	ending(b)
	return b.finish()
}

func TestJobsThatAreHandedOver(t *testing.T) {
	r := judge(t, handedOver(nil))
	wantVerdict(t, r, check.Valid)
	want := check.JobFigures{Submitted: 2, Done: 2, Assignments: 3, TakenBack: 1, Late: 1}
	got := *r.Figures.Jobs
	got.ByWorker = nil
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestBrokenPromisesAboutJobs(t *testing.T) {
	done := func(b *jobRuns) {
		b.moves("worker-2", "a", 2, history.JobDone)
		b.left("a", history.JobDone, 2)
	}
	for name, c := range map[string]struct {
		ending func(b *jobRuns)
		want   []string
	}{
		"a job is lost": {
			func(b *jobRuns) { b.moves("worker-2", "a", 2, history.JobDone) }, []string{"I5"},
		},
		"a job is stuck": {
			func(b *jobRuns) { b.left("a", history.JobWaiting, 2) }, []string{"I5"},
		},
		"a job has failed": {
			func(b *jobRuns) { b.left("a", history.JobFailed, 2) }, []string{"I5"},
		},
		"a late completion is accepted": {
			func(b *jobRuns) {
				b.moves("worker-1", "a", 1, history.JobDone)
				b.left("a", history.JobDone, 2)
			}, []string{"I5", "mine"},
		},
		"a job ends twice": {
			func(b *jobRuns) { b.moves("worker-2", "a", 2, history.JobDone); done(b) }, []string{"I5"},
		},
		"two steps from one status": {
			func(b *jobRuns) {
				b.change("worker-3", "a", 3, history.JobWaiting, b.version["a"]-1, history.OK)
				done(b)
			}, []string{"I5", "mine"},
		},
		"two steps from one status, each of which is allowed": {
			func(b *jobRuns) {
				b.operation(history.Event{
					Process: "worker-3/jobs", Do: history.Change, Key: "a", Attempt: 2, State: history.JobRunning,
					Version: b.version["a"] - 1, Made: 99,
				}, history.OK)
				done(b)
			}, []string{"I5", "mine"},
		},
		"something is left over": {
			func(b *jobRuns) {
				done(b)
				b.held = append(b.held, history.Event{
					Kind: history.Job, State: history.LeftOver, Text: "jobs/lab/waiting/x",
				})
			}, []string{"I5"},
		},
		"a step has had no effect": {
			func(b *jobRuns) {
				done(b)
				b.submit("c")
				b.runs("worker-2", "c", 1, 30, 1)
				b.moves("worker-2", "c", 1, history.JobDone)
				b.left("c", history.JobDone, 1)
			}, []string{"I5"},
		},
		"an effect is there twice": {
			func(b *jobRuns) { b.step("worker-2", "a", 2, 20, 2, history.OK); done(b) }, []string{"I4"},
		},
		"a stale effect": {
			func(b *jobRuns) { b.step("worker-1", "a", 1, 10, 1, history.OK); done(b) },
			[]string{"I1", "I2", "I4", "I5", "model"},
		},
	} {
		t.Run(name, func(t *testing.T) { wantInvariants(t, judge(t, handedOver(c.ending)), c.want...) })
	}
}

func TestTokensOfDifferentJobsAreNotCompared(t *testing.T) {
	wantVerdict(t, judge(t, handedOver(func(b *jobRuns) {
		b.submit("c")
		b.runs("worker-3", "c", 1, 5, 1, 2) // an older token than that of job a
		b.moves("worker-3", "c", 1, history.JobDone)
		b.moves("worker-2", "a", 2, history.JobDone)
		b.left("a", history.JobDone, 2)
		b.left("c", history.JobDone, 1)
	})), check.Valid)
}

func TestAnUnevenSpread(t *testing.T) {
	b := newJobRuns()
	b.header.Expect.Spread = 50
	for n := range 9 {
		job := fmt.Sprintf("j%d", n)
		b.submit(job)
		b.runs("worker-2", job, 1, fence.Token(n+1), 1, 2)
		b.moves("worker-2", job, 1, history.JobDone)
		b.left(job, history.JobDone, 1)
	}
	b.submit("k")
	b.runs("worker-1", "k", 1, 100, 1, 2)
	b.moves("worker-1", "k", 1, history.JobDone)
	b.left("k", history.JobDone, 1)
	wantInvariants(t, judge(t, b.finish()), "expect")
}

func TestJobsAreNotTakenBackMoreOftenThanAllowed(t *testing.T) {
	again := func(most int) []history.Event {
		return handedOver(func(b *jobRuns) {
			b.header.Expect.MostTakenBack = most
			b.moves("worker-2", "a", 2, history.JobWaiting)
			b.runs("worker-3", "a", 3, 30)
			b.moves("worker-3", "a", 3, history.JobDone)
			b.left("a", history.JobDone, 3)
		})
	}
	wantVerdict(t, judge(t, again(2)), check.Valid)
	wantInvariants(t, judge(t, again(1)), "expect")
}

func TestAWorkerThatIsKilledBeforeItReportsItsTerm(t *testing.T) {
	refused := func(text string) []history.Event {
		b := newJobRuns()
		b.submit("a")
		b.submit("b")
		b.runs("worker-1", "a", 1, 10, 1)
		b.moves("worker-1", "a", 1, history.JobWaiting)
		b.moves("worker-2", "a", 2, history.JobAssigned)
		b.fault("kill busy worker #1", "worker-2", history.Begin)
		b.fault("kill busy worker #1", "worker-2", history.Over)
		b.ops++
		e := history.Event{
			Kind: history.Invoke, Process: "worker-1/job 1", Do: history.Step, Store: pg, Token: 10,
			Op: "late", Key: "a/1/1/step-1", Resource: "job_a", Attempt: 1, Sync: true,
		}
		b.add(e)
		b.answer(e, history.Stale, text)
		b.moves("worker-1", "a", 2, history.JobWaiting)
		b.runs("worker-3", "a", 3, 30, 2)
		b.change("worker-1", "a", 1, history.JobDone, 3, history.Refused)
		b.moves("worker-3", "a", 3, history.JobDone)
		b.left("a", history.JobDone, 3)
		b.runs("worker-3", "b", 1, 31, 1, 2)
		b.moves("worker-3", "b", 1, history.JobDone)
		b.left("b", history.JobDone, 1)
		b.header.Expect.Before = 1
		return b.finish()
	}
	names := func(mark fence.Token, holder string) string {
		return fmt.Sprintf(
			`RF001 stale token: 10 is older than the mark %s of "job_a" — %s raised the mark `+
				"of this database at 2026-11-23T06:00:43Z", mark, holder)
	}
	wantVerdict(t, judge(t, refused(names(20, "worker-2, job a"))), check.Valid)
	for what, text := range map[string]string{
		"a mark that is not newer":               names(10, "worker-2, job a"),
		"a worker that did not get the job":      names(20, "worker-3, job a"),
		"a worker that got a job elsewhere":      names(20, "worker-2, job c"),
		"a mark of which the guard knows nobody": names(20, "a newer leader"),
	} {
		t.Run(what, func(t *testing.T) { wantInvariants(t, judge(t, refused(text)), "model") })
	}
}

func TestJobsWithOneResourceNeverRunAtOnce(t *testing.T) {
	shared := func(
		b *jobRuns, worker, job string, token fence.Token, s history.State, o history.Outcome,
	) {
		b.operation(history.Event{
			Process: worker + "/jobs", Do: history.Change, Key: job, Attempt: 1, State: s,
			Version: b.version[job], Text: worker, Resource: "merchant_1", Token: token,
		}, o)
		b.version[job]++
	}
	run := func(tooLate history.Outcome) []history.Event {
		return handedOver(func(b *jobRuns) {
			b.moves("worker-2", "a", 2, history.JobDone)
			b.left("a", history.JobDone, 2)
			b.submit("c")
			b.submit("d")
			b.runs("worker-3", "c", 1, 30, 1, 2)
			b.runs("worker-4", "d", 1, 31, 1, 2)
			shared(b, "worker-4", "d", 31, history.JobDone, history.OK)
			shared(b, "worker-3", "c", 30, history.JobDone, tooLate) // nobody has taken job c back yet
			b.left("c", history.JobDone, 1)
			b.left("d", history.JobDone, 1)
		})
	}
	wantVerdict(t, judge(t, run(history.Refused)), check.Valid)
	wantInvariants(t, judge(t, run(history.OK)), "I5")
}
