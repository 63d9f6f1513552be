package check_test

import (
	"slices"
	"testing"
	"time"

	"github.com/ringfence/ringfence/lab/history"
)

// flawedRuns are good runs with one thing that must not happen. What violates I2 violates the model
// too.
var flawedRuns = []struct {
	name string
	run  func() []history.Event
	want []string
}{
	{"an old write is committed late, and no process learns it", func() []history.Event {
		var old history.Event
		return goodRun(parts{
			before: func(b *builder) { old = b.invoke("worker-1", pg, history.Write, 10) },
			during: func(b *builder) { b.commits(old) },
		}).finish()
	}, []string{"I1"}},
	{"a session carries the token of another term", func() []history.Event {
		b := goodRun(parts{})
		b.held[len(b.held)-1].Carried = 20
		return b.finish()
	}, []string{"I1"}},
	{"a write is accepted after a newer token was", func() []history.Event {
		return goodRun(parts{healed: func(b *builder) {
			e := b.invoke("worker-1", pg, history.Write, 10)
			b.commits(e)
			b.answer(e, history.OK, "")
			last := &b.held[len(b.held)-1]
			last.Place = 0 // in the database it came first, so I1 holds
		}}).finish()
	}, []string{"I2", "model"}},
	{"a mark is raised by an old token", func() []history.Event {
		return goodRun(parts{healed: func(b *builder) {
			b.answer(b.invoke("worker-1", rd, history.Raise, 10), history.OK, "")
		}}).finish()
	}, []string{"I2", "model"}},
	{"a guard names a mark of somebody who does not stand for election", func() []history.Event {
		return goodRun(parts{before: func(b *builder) {
			b.term("worker-2", history.Standing, 0)
			b.refuse("worker-1", pg, 10, 15, "worker-3")
		}}).finish()
	}, []string{"model"}},
	{"a guard names a token of an earlier term of the leader", func() []history.Event {
		return goodRun(parts{before: func(b *builder) {
			b.term("worker-1", history.Standing, 0)
			b.takesOver("worker-1", 12, 1)
			b.refuse("worker-1", pg, 12, 15, "worker-1")
		}}).finish()
	}, []string{"model"}},
	{"a guard raised the mark before the winner stood for election", func() []history.Event {
		return goodRun(parts{before: func(b *builder) {
			b.refuse("worker-1", pg, 10, 20, "worker-2")
			b.term("worker-2", history.Standing, 0)
		}}).finish()
	}, []string{"model"}},
	{"a number that was ready before is accepted from another candidate", func() []history.Event {
		return goodRun(parts{healed: func(b *builder) {
			b.term("worker-3", history.Standing, 0)
			b.takesOver("worker-3", 20, 1)
		}}).finish()
	}, []string{"I8"}},
	{"a coordinator that went back is refused and later believed", func() []history.Event {
		return goodRun(parts{healed: func(b *builder) {
			b.wentBack("worker-3", 15)
			b.term("worker-3", history.Standing, 0)
			b.takesOver("worker-3", 25, 1)
		}}).finish()
	}, []string{"I8"}},
	{"an acknowledged write is not there", func() []history.Event {
		b := goodRun(parts{})
		b.held = slices.Delete(b.held, 3, 4)
		return b.finish()
	}, []string{"I3"}},
	{"a write is there twice", func() []history.Event {
		b := goodRun(parts{})
		again := b.held[len(b.held)-1]
		again.Place++
		b.held = append(b.held, again)
		return b.finish()
	}, []string{"I3"}},
	{"a refused write is there", func() []history.Event {
		return goodRun(parts{ending: func(b *builder) {
			e := b.invoke("worker-1", pg, history.Write, 30)
			b.commits(e)
			b.answer(e, history.Refused, "RF007")
		}}).finish()
	}, []string{"I3"}},
	{"a write is there that nobody sent", func() []history.Event {
		return goodRun(parts{ending: func(b *builder) {
			b.commits(history.Event{Op: "ghost", Store: pg, Token: 30})
		}}).finish()
	}, []string{"I3"}},
	{"a rightful leader is refused", func() []history.Event {
		return goodRun(parts{before: func(b *builder) {
			b.write("worker-1", pg, 10, history.Stale)
		}}).finish()
	}, []string{"model"}},
	{"a rightful leader's session is ended as stale", func() []history.Event {
		return goodRun(parts{before: func(b *builder) {
			b.answer(b.invoke("worker-1", rd, history.Write, 10), history.Unknown, "STALETOKEN")
		}}).finish()
	}, []string{"model"}},
	{"a leader is refused and then admitted again", func() []history.Event {
		return goodRun(parts{during: func(b *builder) {
			b.invoke("worker-3", pg, history.Raise, 25) // by a newer leader
			b.write("worker-2", pg, 20, history.Stale)
		}}).finish()
	}, []string{"model"}},
	{"nobody writes after the fault", func() []history.Event {
		b := newBuilder()
		b.takesOver("worker-1", 10, 8)
		b.fault("pause leader #1", "worker-1", history.Begin)
		b.takesOver("worker-2", 20, 3)
		b.takesOver("worker-3", 30, 3)
		b.fault("pause leader #1", "worker-1", history.Over)
		b.write("worker-1", pg, 10, history.Stale)
		b.write("worker-1", rd, 10, history.Stale)
		return b.finish()
	}, []string{"I6"}},
	{"nobody writes to one of the stores after the fault", func() []history.Event {
		b := newBuilder()
		b.takesOver("worker-1", 10, 8)
		b.fault("lose ends guard-1 #1", "guard-1", history.Begin)
		b.takesOver("worker-2", 20, 3)
		b.takesOver("worker-3", 30, 3)
		b.fault("lose ends guard-1 #1", "guard-1", history.Over)
		for range 8 {
			b.write("worker-3", rd, 30, history.OK)
		}
		b.write("worker-1", pg, 10, history.Stale)
		b.write("worker-1", rd, 10, history.Stale)
		return b.finish()
	}, []string{"I6"}},
	{"the first write after the fault is late", func() []history.Event {
		b := goodRun(parts{})
		b.header.Expect.Recover = history.Duration(time.Millisecond)
		return b.finish()
	}, []string{"I6"}},
	{"a leader writes and was never ready", func() []history.Event {
		b := goodRun(parts{})
		b.without(func(e history.Event) bool { return e.State == history.Ready && e.Token == 30 })
		b.header.Expect.Changes = 1
		return b.finish()
	}, []string{"I6"}},
	{"nobody follows the deposed leader", func() []history.Event {
		b := newBuilder()
		b.takesOver("worker-1", 10, 8)
		b.takesOver("worker-2", 20, 8)
		b.takesOver("worker-3", 30, 8)
		b.write("worker-1", pg, 10, history.Stale)
		b.write("worker-1", rd, 10, history.Stale)
		b.fault(finalPhase, "worker-3", history.Begin)
		b.fault(finalPhase, "worker-3", history.Over)
		b.writes("worker-3", 30, 1)
		return b.finish()
	}, []string{"I6"}},
	{"leadership changed too often", func() []history.Event {
		b := goodRun(parts{})
		b.header.Expect.MostChanges = -1
		return b.finish()
	}, []string{"expect"}},
	{"a code never came", func() []history.Event {
		b := goodRun(parts{})
		b.header.Expect.Refusals = []string{"RF001", "RF004"}
		return b.finish()
	}, []string{"expect"}},
	{"the next leader comes late", func() []history.Event {
		b := goodRun(parts{})
		b.header.Expect.TakeOver = history.Duration(time.Nanosecond)
		return b.finish()
	}, []string{"expect"}},
	{"a leader never steps down", func() []history.Event {
		b := goodRun(parts{})
		b.header.Expect.StepDown = history.Duration(900 * time.Millisecond)
		b.without(func(e history.Event) bool { return e.State == history.Lost })
		return b.finish()
	}, []string{"expect"}},
	{"a leader steps down late", func() []history.Event {
		b := goodRun(parts{})
		b.header.Expect.StepDown = history.Duration(900 * time.Millisecond)
		return b.finish()
	}, []string{"expect"}},
}

func TestFlawedRunsAreCaughtByTheirInvariant(t *testing.T) {
	for _, test := range flawedRuns {
		t.Run(test.name, func(t *testing.T) {
			wantInvariants(t, judge(t, test.run()), test.want...)
		})
	}
}
