package check_test

import (
	"slices"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lab/check"
	"github.com/ringfence/ringfence/lab/history"
)

func TestGoodRunIsValid(t *testing.T) {
	r := judge(t, goodRun(parts{}).finish())
	wantVerdict(t, r, check.Valid)
	f := r.Figures
	if f.Writes != 41 || f.Acknowledged != 38 || f.Unknown != 0 || f.Changes != 2 ||
		f.StaleRefused != 3 || f.StaleAttempts != 3 {
		t.Errorf("figures: %+v", f)
	}
	if f.Linearized != 41+6 {
		t.Errorf("the model explains %d operations, want 41 writes and 6 raises", f.Linearized)
	}
	if len(f.TakeOvers) != 2 || f.TakeOvers[0] < history.Duration(time.Second) {
		t.Errorf("take-overs: %v", f.TakeOvers)
	}
	if f.Before < 100 || f.During <= 0 || f.After < 100 || f.Recovery <= 0 {
		t.Errorf("rates: %+v", f)
	}
}

// harmlessRuns look odd and are valid.
var harmlessRuns = []struct {
	name string
	run  func() []history.Event
}{
	{"a coordinator goes back, everybody is refused, and the leader from before goes on",
		func() []history.Event {
			return goodRun(parts{healed: func(b *builder) {
				b.wentBack("worker-3", 15)
				b.wentBack("worker-3", 25)
				b.writes("worker-2", 20, 1)
			}}).finish()
		}},
	{"a frozen process wrote an answer down long after it came", func() []history.Event {
		var old history.Event
		return goodRun(parts{
			before: func(b *builder) {
				old = b.invoke("worker-1", pg, history.Write, 10)
				b.commits(old)
			},
			healed: func(b *builder) { b.answer(old, history.OK, "") },
		}).finish()
	}},
	{"a guard raised the mark before the winner reported anything", func() []history.Event {
		return goodRun(parts{before: func(b *builder) {
			b.term("worker-2", history.Standing, 0)
			b.refuse("worker-1", pg, 10, 20, "worker-2")
		}}).finish()
	}},
	{"a guard raised the mark to a token whose worker has never learned that it led",
		func() []history.Event {
			return goodRun(parts{before: func(b *builder) {
				b.term("worker-2", history.Standing, 0)
				b.refuse("worker-1", pg, 10, 15, "worker-2")
			}}).finish()
		}},
	{"an unanswered write was committed", func() []history.Event {
		return goodRun(parts{before: func(b *builder) {
			b.commits(b.invoke("worker-1", pg, history.Write, 10))
		}}).finish()
	}},
	{"an unanswered write was not committed", func() []history.Event {
		return goodRun(parts{before: func(b *builder) {
			b.invoke("worker-1", pg, history.Write, 10)
		}}).finish()
	}},
	{"a leader raised the mark and was never heard of again", func() []history.Event {
		return goodRun(parts{healed: func(b *builder) {
			b.term("worker-3", history.Won, 25)
			b.invoke("worker-3", pg, history.Raise, 25)
			b.write("worker-2", pg, 20, history.Stale)
		}}).finish()
	}},
	{"one session of a leader is refused, and another still writes while the mark is raised",
		func() []history.Event {
			return goodRun(parts{healed: func(b *builder) {
				b.term("worker-3", history.Won, 25)
				raise := b.invoke("worker-3", pg, history.Raise, 25)
				b.write("stray", pg, 20, history.Stale)
				b.write("worker-2", pg, 20, history.OK)
				b.answer(raise, history.OK, "")
			}}).finish()
		}},
	{"a refused session raised the mark", func() []history.Event {
		return goodRun(parts{healed: func(b *builder) {
			b.term("worker-3", history.Won, 25)
			b.answer(b.invoke("worker-3", pg, history.Raise, 25), history.Refused, "RF006")
			b.write("worker-2", pg, 20, history.Stale)
		}}).finish()
	}},
	{"leader run raises the mark before its child reports anything", func() []history.Event {
		b := newBuilder()
		b.takesOver("worker-1", 10, 8)
		b.fault("stop leader #1", "worker-1", history.Begin)
		b.write("worker-1", pg, 10, history.Stale)
		b.takesOver("worker-2", 20, 8)
		b.write("worker-1", rd, 10, history.Stale)
		b.fault("stop leader #1", "worker-1", history.Over)
		b.takesOver("worker-1", 30, 8)
		b.without(func(e history.Event) bool { return e.Do == history.Raise })
		return b.finish()
	}},
	{"leader run raises the mark and ends before it has a child", func() []history.Event {
		b := goodRun(parts{ending: func(b *builder) { b.write("worker-1", pg, 30, history.Stale) }})
		b.held = append(b.held, history.Event{Kind: history.Mark, Store: pg, Token: 31})
		return b.finish()
	}},
	{"a session was ended as stale when a newer one came", func() []history.Event {
		return goodRun(parts{during: func(b *builder) {
			b.answer(b.invoke("worker-1", rd, history.Write, 10), history.Unknown, "STALETOKEN")
		}}).finish()
	}},
	{"Redis was killed and may lose the last second", func() []history.Event {
		lost := ""
		b := goodRun(parts{healed: func(b *builder) {
			lost = b.write("worker-2", rd, 20, history.OK)
			b.fault("kill redis #2", "redis", history.Begin)
			b.fault("kill redis #2", "redis", history.Over)
			b.writes("worker-2", 20, 1)
		}})
		b.held = slices.DeleteFunc(b.held, func(e history.Event) bool { return e.Op == lost })
		b.header.Expect.MayLose = history.Duration(time.Second)
		b.header.Expect.Kills = 1
		return b.finish()
	}},
	{"and what it acknowledged until another one had taken over", func() []history.Event {
		lost := ""
		b := goodRun(parts{healed: func(b *builder) {
			b.fault("pause primary #2", "postgres-2", history.Begin)
			b.fault("pause primary #2", "postgres-2", history.Over)
			lost = b.write("worker-2", pg, 20, history.OK)
			b.writes("worker-2", 20, 1)
		}})
		b.held = slices.DeleteFunc(b.held, func(e history.Event) bool { return e.Op == lost })
		b.header.Expect.MayLose = history.Duration(time.Second)
		b.header.Expect.Settles = history.Duration(time.Second)
		return b.finish()
	}},
	{"leaders step down in time", func() []history.Event {
		b := goodRun(parts{during: func(b *builder) {
			b.term("worker-1", history.Lost, 10)
			b.wait(200 * time.Millisecond)
		}})
		b.header.Expect.StepDown = history.Duration(1100 * time.Millisecond)
		b.header.Expect.TakeOver = history.Duration(time.Minute)
		return b.finish()
	}},
	{"another coordinator counts from the start", func() []history.Event {
		b := newBuilder()
		b.header.Expect.Refusals = []string{"RF004"}
		b.takesOver("worker-1", 10, 8)
		b.takesOver("worker-2", 20, 8)
		b.fault("wipe zookeeper #1", "zookeeper-1", history.Begin)
		b.writes("worker-2", 20, 2)
		b.term("worker-1", history.Won, 10) // the same number
		b.answer(b.invoke("worker-1", pg, history.Raise, 10), history.Refused, "RF004")
		b.fault("wipe zookeeper #1", "zookeeper-1", history.Over)
		b.takesOver("worker-1", 10, 8)
		// of its first issuer, though this line will not name it
		b.term("worker-2", history.Lost, 20)
		b.write("worker-2", pg, 20, history.Stale)
		b.write("worker-2", pg, 20, history.Stale)
		for i, wiped := 0, false; i < len(b.events); i++ {
			e := &b.events[i]
			wiped = wiped || e.Kind == history.Fault
			if e.Kind == history.Term && e.State != history.Lost {
				e.Issuer = map[bool]fence.Issuer{false: "zookeeper-a", true: "zookeeper-b"}[wiped]
			}
		}
		return b.finish()
	}},
}

func TestHarmlessRunsAreValid(t *testing.T) {
	for _, test := range harmlessRuns {
		t.Run(test.name, func(t *testing.T) { wantVerdict(t, judge(t, test.run()), check.Valid) })
	}
}
