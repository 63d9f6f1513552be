package check_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/lab/check"
	"github.com/ringfence/ringfence/lab/history"
)

// idleRuns have nothing wrong and prove nothing.
var idleRuns = []struct {
	name, doubt string
	run         func() []history.Event
}{
	{"empty", "is empty", func() []history.Event { return nil }},
	{"no header", "header is missing", func() []history.Event {
		return goodRun(parts{}).finish()[1:]
	}},
	{"no end", "not completed", func() []history.Event {
		all := goodRun(parts{}).finish()
		return all[:len(all)-1]
	}},
	{"no fault", "there was no fault", func() []history.Event {
		b := goodRun(parts{})
		b.without(func(e history.Event) bool { return e.Kind == history.Fault })
		return b.finish()
	}},
	{"no fault hits a leader that has to be followed in time", "another one takes over",
		func() []history.Event {
			b := goodRun(parts{})
			b.header.Expect.TakeOver = history.Duration(time.Minute)
			for i := range b.events {
				if e := &b.events[i]; e.Kind == history.Fault {
					e.Process, e.Text = "guard-1", "guard-1"
				}
			}
			return b.finish()
		}},
	{"no stale attempt", "under a stale token", func() []history.Event {
		b := goodRun(parts{})
		stale := staleOps(b)
		b.without(func(e history.Event) bool { return slices.Contains(stale, e.Op) })
		return b.finish()
	}},
	{"no change of leadership", "leadership changed 0 times", func() []history.Event {
		b := newBuilder()
		b.header.Expect = history.Expect{}
		b.takesOver("worker-1", 10, 10)
		b.fault("pause leader #1", "worker-1", history.Begin)
		b.fault("pause leader #1", "worker-1", history.Over)
		b.writes("worker-1", 10, 10)
		return b.finish()
	}},
	{"too little load", "before the first fault", func() []history.Event {
		b := goodRun(parts{})
		b.header.Expect.Before = 1000
		return b.finish()
	}},
	{"no load while the fault lasted", "no operation was in flight", func() []history.Event {
		b := newBuilder()
		b.takesOver("worker-1", 10, 10)
		b.takesOver("worker-2", 20, 1)
		b.takesOver("worker-3", 30, 1)
		b.write("worker-1", pg, 10, history.Stale)
		b.write("worker-1", pg, 10, history.Stale)
		b.wait(time.Minute)
		b.fault("pause leader #1", "worker-3", history.Begin)
		b.fault("pause leader #1", "worker-3", history.Over)
		b.wait(5 * time.Second)
		b.writes("worker-3", 30, 1)
		return b.finish()
	}},
	{"a fault never ended", "never ended", func() []history.Event {
		return goodRun(parts{healed: func(b *builder) {
			b.fault("cut leader #2", "worker-2", history.Begin)
		}}).finish()
	}},
	{"nobody was killed", "processes were killed", func() []history.Event {
		b := goodRun(parts{})
		b.header.Expect.Kills = 1
		return b.finish()
	}},
	{"step-down not tested", "steps down in time", func() []history.Event {
		b := goodRun(parts{})
		b.header.Expect.StepDown = history.Duration(time.Minute)
		b.without(func(e history.Event) bool { return e.State == history.Lost })
		return b.finish()
	}},
	{"an answer without an operation", "was never invoked", func() []history.Event {
		return goodRun(parts{ending: func(b *builder) {
			b.answer(history.Event{Op: "ghost"}, history.Failed, "")
		}}).finish()
	}},
}

func staleOps(b *builder) []string {
	var all []string
	for _, e := range b.events {
		if e.Outcome == history.Stale {
			all = append(all, e.Op)
		}
	}
	return all
}

func TestIdleRunsAreUnknown(t *testing.T) {
	for _, test := range idleRuns {
		t.Run(test.name, func(t *testing.T) {
			r := judge(t, test.run())
			wantVerdict(t, r, check.Unknown)
			if !strings.Contains(strings.Join(r.Doubts, "\n"), test.doubt) {
				t.Errorf("no doubt says %q:%s", test.doubt, findings(r))
			}
		})
	}
}
