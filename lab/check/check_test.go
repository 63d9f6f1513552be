package check_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	if f.Writes != 41 || f.Acknowledged != 38 || f.Unknown != 0 || f.Changes != 2 || f.StaleRefused != 3 || f.StaleAttempts != 3 {
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

// flawedRuns are good runs with one thing that must not happen. I2 and the model go together: the model is I2 and more.
var flawedRuns = []struct {
	name string
	run  func() []history.Event
	want []string
}{
	{"an old write lands behind a newer one, and nobody hears of it", func() []history.Event {
		var old history.Event
		return goodRun(parts{
			before: func(b *builder) { old = b.invoke("worker-1", pg, history.Write, 10) },
			during: func(b *builder) { b.lands(old) },
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
			b.lands(e)
			b.answer(e, history.OK, "")
			last := &b.held[len(b.held)-1]
			last.Place = 0 // the database says that it came first, so that I1 has nothing to say
		}}).finish()
	}, []string{"I2", "model"}},
	{"a mark is raised by an old token", func() []history.Event {
		return goodRun(parts{healed: func(b *builder) {
			b.answer(b.invoke("worker-1", rd, history.Raise, 10), history.OK, "")
		}}).finish()
	}, []string{"I2", "model"}},
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
			b.lands(e)
			b.answer(e, history.Refused, "RF007")
		}}).finish()
	}, []string{"I3"}},
	{"nobody sent what is there", func() []history.Event {
		return goodRun(parts{ending: func(b *builder) {
			b.lands(history.Event{Op: "ghost", Store: pg, Token: 30})
		}}).finish()
	}, []string{"I3"}},
	{"a rightful leader is refused", func() []history.Event {
		return goodRun(parts{before: func(b *builder) { b.write("worker-1", pg, 10, history.Stale) }}).finish()
	}, []string{"model"}},
	{"a rightful leader's session is ended as stale", func() []history.Event {
		return goodRun(parts{before: func(b *builder) {
			b.answer(b.invoke("worker-1", rd, history.Write, 10), history.Unknown, "STALETOKEN")
		}}).finish()
	}, []string{"model"}},
	{"a leader is refused and then let in again", func() []history.Event {
		return goodRun(parts{during: func(b *builder) {
			b.invoke("worker-3", pg, history.Raise, 25) // somebody newer was there
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
	{"the first write after the fault is late", func() []history.Event {
		b := goodRun(parts{})
		b.header.Expect.Recover = history.Duration(time.Millisecond)
		return b.finish()
	}, []string{"I6"}},
	{"a leader writes that was never ready", func() []history.Event {
		b := goodRun(parts{})
		b.events = slices.DeleteFunc(b.events, func(e history.Event) bool { return e.State == history.Ready && e.Token == 30 })
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
		b.fault(coda, "worker-3", history.Begin)
		b.fault(coda, "worker-3", history.Over)
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
	{"a leader never steps down", func() []history.Event {
		b := goodRun(parts{})
		b.header.Expect.StepDown = history.Duration(900 * time.Millisecond)
		b.events = slices.DeleteFunc(b.events, func(e history.Event) bool { return e.State == history.Lost })
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
		t.Run(test.name, func(t *testing.T) { wantInvariants(t, judge(t, test.run()), test.want...) })
	}
}

// idleRuns have nothing wrong, and prove nothing.
var idleRuns = []struct {
	name, doubt string
	run         func() []history.Event
}{
	{"empty", "is empty", func() []history.Event { return nil }},
	{"no header", "header is missing", func() []history.Event { return goodRun(parts{}).finish()[1:] }},
	{"no end", "not carried out to its end", func() []history.Event {
		all := goodRun(parts{}).finish()
		return all[:len(all)-1]
	}},
	{"no fault", "there was no fault", func() []history.Event {
		b := goodRun(parts{})
		b.events = slices.DeleteFunc(b.events, func(e history.Event) bool { return e.Kind == history.Fault })
		return b.finish()
	}},
	{"no stale attempt", "under a stale token", func() []history.Event {
		b := goodRun(parts{})
		b.events = slices.DeleteFunc(b.events, func(e history.Event) bool { return e.Op != "" && slices.Contains(staleOps(b), e.Op) })
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
	{"no load while the fault lasted", "no operation was under way", func() []history.Event {
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
		return goodRun(parts{healed: func(b *builder) { b.fault("cut leader #2", "worker-2", history.Begin) }}).finish()
	}},
	{"nobody was killed", "processes were killed", func() []history.Event {
		b := goodRun(parts{})
		b.header.Expect.Kills = 1
		return b.finish()
	}},
	{"step-down not put to the test", "steps down in time", func() []history.Event {
		b := goodRun(parts{})
		b.header.Expect.StepDown = history.Duration(time.Minute)
		b.events = slices.DeleteFunc(b.events, func(e history.Event) bool { return e.State == history.Lost })
		return b.finish()
	}},
	{"an answer without a question", "was never invoked", func() []history.Event {
		return goodRun(parts{ending: func(b *builder) { b.answer(history.Event{Op: "ghost"}, history.Failed, "") }}).finish()
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
				t.Errorf("no doubt says %q:%s", test.doubt, told(r))
			}
		})
	}
}

// harmlessRuns look odd and are right.
var harmlessRuns = []struct {
	name string
	run  func() []history.Event
}{
	{"an answer was written down long after, by a process that was frozen", func() []history.Event {
		var old history.Event
		return goodRun(parts{
			before: func(b *builder) { old = b.invoke("worker-1", pg, history.Write, 10); b.lands(old) },
			healed: func(b *builder) { b.answer(old, history.OK, "") },
		}).finish()
	}},
	{"an unanswered write has landed", func() []history.Event {
		return goodRun(parts{before: func(b *builder) { b.lands(b.invoke("worker-1", pg, history.Write, 10)) }}).finish()
	}},
	{"an unanswered write has not landed", func() []history.Event {
		return goodRun(parts{before: func(b *builder) { b.invoke("worker-1", pg, history.Write, 10) }}).finish()
	}},
	{"a leader that was never heard of again has lifted the mark", func() []history.Event {
		return goodRun(parts{healed: func(b *builder) {
			b.term("worker-3", history.Won, 25)
			b.invoke("worker-3", pg, history.Raise, 25)
			b.write("worker-2", pg, 20, history.Stale)
		}}).finish()
	}},
	{"a refused session has lifted the mark", func() []history.Event {
		return goodRun(parts{healed: func(b *builder) {
			b.term("worker-3", history.Won, 25)
			b.answer(b.invoke("worker-3", pg, history.Raise, 25), history.Refused, "RF006")
			b.write("worker-2", pg, 20, history.Stale)
		}}).finish()
	}},
	{"leader run raises the mark before its child says anything", func() []history.Event {
		b := newBuilder()
		b.takesOver("worker-1", 10, 8)
		b.fault("stop leader #1", "worker-1", history.Begin)
		b.write("worker-1", pg, 10, history.Stale)
		b.takesOver("worker-2", 20, 8)
		b.write("worker-1", rd, 10, history.Stale)
		b.fault("stop leader #1", "worker-1", history.Over)
		b.takesOver("worker-1", 30, 8)
		b.events = slices.DeleteFunc(b.events, func(e history.Event) bool { return e.Do == history.Raise })
		return b.finish()
	}},
	{"leader run raises the mark, ends, and has no child that could say so", func() []history.Event {
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
	{"leaders step down in time", func() []history.Event {
		b := goodRun(parts{during: func(b *builder) {
			b.term("worker-1", history.Lost, 10)
			b.wait(200 * time.Millisecond)
		}})
		b.header.Expect.StepDown = history.Duration(1100 * time.Millisecond)
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
		b.term("worker-2", history.Lost, 20) // of the issuer that it was won from, though this line will not name it
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

func TestLossIsAllowedOnlyRightBeforeTheFault(t *testing.T) {
	b := goodRun(parts{healed: func(b *builder) {
		b.wait(5 * time.Second)
		b.fault("kill redis #2", "redis", history.Begin)
		b.fault("kill redis #2", "redis", history.Over)
		b.writes("worker-2", 20, 1)
	}})
	b.header.Expect.MayLose = history.Duration(time.Second)
	first := slices.IndexFunc(b.held, func(e history.Event) bool { return e.Store == rd })
	b.held = slices.Delete(b.held, first, first+1)
	r := judge(t, b.finish())
	wantInvariants(t, r, "I3")
	if r.Figures.Lost != 1 {
		t.Errorf("%d lost, want 1", r.Figures.Lost)
	}
}

func TestSwappedTokensAreInvalid(t *testing.T) {
	b := goodRun(parts{})
	first := slices.IndexFunc(b.held, func(e history.Event) bool { return e.Store == pg && e.Token == 10 })
	second := slices.IndexFunc(b.held, func(e history.Event) bool { return e.Store == pg && e.Token == 20 })
	b.held[first].Token, b.held[second].Token = b.held[second].Token, b.held[first].Token
	b.held[first].Carried, b.held[second].Carried = b.held[second].Carried, b.held[first].Carried
	r := judge(t, b.finish())
	wantInvariants(t, r, "I1", "I3")
	if r.Figures.StaleAccepted == 0 {
		t.Error("nothing counts as accepted under a stale token")
	}
}

func TestProcessesKilledAtFailpointsAreCountedOnce(t *testing.T) {
	b := goodRun(parts{before: func(b *builder) {
		for _, text := range []string{"failpoint after effect", "ended: exit code 137", "ended: exit code 137", "ended: exit code 0"} {
			b.add(history.Event{Kind: history.Note, Process: "worker-3", Text: text})
		}
	}})
	b.header.Expect.Kills = 2
	r := judge(t, b.finish())
	wantVerdict(t, r, check.Valid)
	if r.Figures.Kills != 2 {
		t.Errorf("%d killed, want one at a failpoint and one by itself", r.Figures.Kills)
	}
}

func TestFalseRefusalsAndKillsAreCounted(t *testing.T) {
	b := goodRun(parts{before: func(b *builder) {
		b.write("worker-1", pg, 10, history.Stale)
		b.fault("kill guard-1 #7", "guard-1", history.Begin)
		b.fault("kill guard-1 #7", "guard-1", history.Over)
		b.fault("kill zookeeper majority #8", "zookeeper-1, zookeeper-2", history.Begin)
		b.fault("kill zookeeper majority #8", "zookeeper-1, zookeeper-2", history.Over)
	}})
	r := judge(t, b.finish())
	wantInvariants(t, r, "model")
	if r.Figures.FalseRefusals != 1 || r.Figures.Kills != 3 {
		t.Errorf("figures: %+v", r.Figures)
	}
}

func TestAnInvalidRunStaysInvalidWhateverDoubts(t *testing.T) {
	b := goodRun(parts{})
	b.held[0].Token, b.held[len(b.held)-1].Token = b.held[len(b.held)-1].Token, b.held[0].Token
	all := b.finish()
	r := judge(t, all[:len(all)-1])
	wantVerdict(t, r, check.Invalid)
	if len(r.Doubts) == 0 {
		t.Error("the missing end is no doubt")
	}
}

func TestNothingIsMissingWhereTheDatabasesWereNotAsked(t *testing.T) {
	b := goodRun(parts{})
	b.held = b.held[1:]
	all := b.finish()
	wantVerdict(t, judge(t, all), check.Invalid)
	wantVerdict(t, judge(t, all[:len(all)-1]), check.Unknown)
}

func TestProblemsAreListedInOrderAndNotWithoutEnd(t *testing.T) {
	b := goodRun(parts{before: func(b *builder) { b.writes("worker-1", 10, 50) }})
	b.held = nil
	r := judge(t, b.finish())
	if n := len(r.Problems); n != 21 {
		t.Fatalf("%d problems are listed, want 20 and the rest in one%s", n, told(r))
	}
	if !slices.IsSortedFunc(r.Problems[:20], func(a, b check.Problem) int { return int(a.At - b.At) }) {
		t.Error("the problems are not in order")
	}
	if last := r.Problems[20].Text; !strings.Contains(last, "118 more") {
		t.Errorf("the rest is %q", last)
	}
}

func TestUnguardedRunIsJudgedToo(t *testing.T) {
	b := goodRun(parts{healed: func(b *builder) { b.write("worker-1", pg, 10, history.OK) }})
	b.header.Guarded = false
	wantInvariants(t, judge(t, b.finish()), "I1", "I2", "model")
}

func TestATimeoutIsADoubt(t *testing.T) {
	ctx := background(t, time.Nanosecond)
	<-ctx.Done()
	r := check.Check(ctx, goodRun(parts{}).finish())
	wantVerdict(t, r, check.Unknown)
}

// longRun has some twenty thousand operations, fifty leaders, and answers that never came.
func longRun() *builder {
	b := newBuilder()
	b.header.Expect = history.Expect{}
	for i := range fence.Token(50) {
		b.takesOver("worker-1", 100+i, 200)
		b.lands(b.invoke("worker-1", pg, history.Write, 100+i))
		b.invoke("worker-1", rd, history.Write, 100+i)
		b.fault("pause leader", "worker-1", history.Begin)
		b.invoke("worker-2", rd, history.Raise, 99+i)
		b.write("worker-2", pg, 99+i, history.Stale)
		b.fault("pause leader", "worker-1", history.Over)
	}
	return b
}

func TestALongHistoryIsCheckedInSeconds(t *testing.T) {
	for want, change := range map[check.Verdict]func(*builder){
		check.Valid:   func(*builder) {},
		check.Invalid: func(b *builder) { b.write("worker-2", rd, 100, history.OK) },
	} {
		b := longRun()
		change(b)
		began := time.Now()
		r := judge(t, b.finish())
		took := time.Since(began)
		t.Logf("%s: %d operations took %s", want, b.ops, took)
		if took > 30*time.Second {
			t.Errorf("%d operations took %s", b.ops, took)
		}
		wantVerdict(t, r, want)
	}
}

func TestVisualizeWritesAPage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.html")
	if err := check.Visualize(goodRun(parts{}).finish(), path); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"pause leader #1", "raise(20) ok", "write(10) stale", "mark 30"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page does not show %q", want)
		}
	}
	if err := check.Visualize(nil, path); err == nil {
		t.Error("an empty history was drawn")
	}
}
