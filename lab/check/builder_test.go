package check_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lab/check"
	"github.com/ringfence/ringfence/lab/history"
)

const (
	pg         = "postgres"
	rd         = "redis"
	ms         = int64(time.Millisecond)
	finalPhase = history.FinalPhase + "depose leader"
)

// builder writes a history as a run would, with one event each millisecond.
type builder struct {
	header history.Header
	at     int64
	ops    int
	events []history.Event
	held   []history.Event // what the databases hold
	place  map[string]int64
}

func newBuilder() *builder {
	return &builder{
		header: history.Header{
			Scenario: "test", Guarded: true, Session: history.Duration(time.Second),
			Expect: history.Expect{
				Changes: 2, Stale: 2, Before: 10, Recover: history.Duration(10 * time.Second),
			},
		},
		at: 1000 * ms, place: map[string]int64{},
	}
}

func (b *builder) add(e history.Event) {
	b.at += ms
	e.At = b.at
	b.events = append(b.events, e)
}

func (b *builder) wait(d time.Duration) { b.at += int64(d) }

func (b *builder) term(process string, s history.State, t fence.Token) {
	b.add(history.Event{Kind: history.Term, Process: process, State: s, Token: t})
}

// without deletes events.
func (b *builder) without(is func(history.Event) bool) {
	b.events = slices.DeleteFunc(b.events, is)
}

// invoke begins an operation and returns it, for answer.
func (b *builder) invoke(process, store string, do history.Do, t fence.Token) history.Event {
	b.ops++
	e := history.Event{
		Kind: history.Invoke, Process: process + "/" + store, Op: fmt.Sprintf("op-%d", b.ops),
		Do: do, Store: store, Token: t,
	}
	b.add(e)
	return e
}

func (b *builder) answer(e history.Event, o history.Outcome, text string) {
	e.Kind, e.Outcome, e.Text = history.Return, o, text
	b.add(e)
}

// commits puts a write into its database.
func (b *builder) commits(e history.Event) {
	b.place[e.Store]++
	b.held = append(b.held, history.Event{
		Kind: history.Evidence, Op: e.Op, Store: e.Store, Token: e.Token, Carried: e.Token,
		Place: b.place[e.Store],
	})
}

func (b *builder) write(process, store string, t fence.Token, o history.Outcome) string {
	e := b.invoke(process, store, history.Write, t)
	text := ""
	if o == history.OK {
		b.commits(e)
	} else {
		text = "RF001: stale token"
	}
	b.answer(e, o, text)
	return e.Op
}

// refuse adds a write whose refusal names the mark and its holder.
func (b *builder) refuse(process, store string, t, mark fence.Token, holder string) {
	b.answer(b.invoke(process, store, history.Write, t), history.Stale,
		fmt.Sprintf("RF001: stale token: %d is older than the mark %d of %q — %s raised the mark", t,
			mark, "orders", holder))
}

// writes adds n accepted writes to each store.
func (b *builder) writes(process string, t fence.Token, n int) {
	for range n {
		b.write(process, pg, t, history.OK)
		b.write(process, rd, t, history.OK)
	}
}

// takesOver adds a whole election with its writes.
func (b *builder) takesOver(process string, t fence.Token, n int) {
	b.term(process, history.Won, t)
	for _, store := range []string{pg, rd} {
		b.answer(b.invoke(process, store, history.Raise, t), history.OK, "")
	}
	b.term(process, history.Ready, t)
	b.writes(process, t, n)
}

// wentBack adds a term that every store refuses, because the coordinator has gone back.
func (b *builder) wentBack(process string, t fence.Token) {
	b.term(process, history.Standing, 0)
	b.term(process, history.Won, t)
	for store, code := range map[string]string{pg: "RF004", rd: "ISSUER"} {
		b.answer(b.invoke(process, store, history.Raise, t), history.Refused, code+": the coordinator "+
			"went back")
	}
	b.term(process, history.Left, t)
}

func (b *builder) fault(name, text string, s history.State) {
	b.add(history.Event{Kind: history.Fault, Fault: name, State: s, Text: text, Process: text})
}

// finish returns the history, with what the databases hold and the last line.
func (b *builder) finish() []history.Event {
	h := b.header
	all := append([]history.Event{{At: 1000 * ms, Kind: history.Run, Header: &h}}, b.events...)
	for _, e := range b.held {
		b.at += ms
		e.At = b.at
		all = append(all, e)
	}
	return append(all, history.Event{At: b.at + ms, Kind: history.End})
}

// parts are the places where a test changes the history of a good run.
type parts struct {
	before, during, healed, ending func(b *builder)
}

func (p parts) do(what func(*builder), b *builder) {
	if what != nil {
		what(b)
	}
}

// goodRun is a run in which a leader is paused, another one takes over, and the first one is
// refused; then comes the final phase.
func goodRun(p parts) *builder {
	b := newBuilder()
	b.takesOver("worker-1", 10, 8)
	p.do(p.before, b)
	b.fault("pause leader #1", "worker-1", history.Begin)
	b.wait(time.Second)
	b.takesOver("worker-2", 20, 4)
	p.do(p.during, b)
	b.fault("pause leader #1", "worker-1", history.Over)
	b.write("worker-1", pg, 10, history.Stale)
	b.write("worker-1", rd, 10, history.Stale)
	b.term("worker-1", history.Lost, 10)
	b.writes("worker-2", 20, 4)
	p.do(p.healed, b)
	b.fault(finalPhase, "worker-2", history.Begin)
	b.takesOver("worker-1", 30, 3)
	b.write("worker-2", pg, 20, history.Stale)
	b.fault(finalPhase, "worker-2", history.Over)
	p.do(p.ending, b)
	return b
}

func judge(t *testing.T, events []history.Event) check.Result {
	t.Helper()
	return check.Check(t.Context(), events)
}

// wantInvariants demands that exactly these invariants are violated, and the verdict that follows.
func wantInvariants(t *testing.T, r check.Result, want ...string) {
	t.Helper()
	found := map[string]bool{}
	for _, p := range r.Problems {
		found[p.Invariant] = true
	}
	var names []string
	for n := range found {
		names = append(names, n)
	}
	slices.Sort(names)
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("violated: %v, want %v%s", names, want, findings(r))
	}
	if (r.Verdict == check.Invalid) != (len(want) > 0) {
		t.Errorf("the verdict is %s%s", r.Verdict, findings(r))
	}
}

func wantVerdict(t *testing.T, r check.Result, want check.Verdict) {
	t.Helper()
	if r.Verdict != want {
		t.Errorf("the verdict is %s, want %s%s", r.Verdict, want, findings(r))
	}
}

// findings lists the problems and doubts, for messages.
func findings(r check.Result) string {
	text := ""
	for _, p := range r.Problems {
		text += fmt.Sprintf("\n  %s at %d: %s", p.Invariant, p.At, p.Text)
	}
	for _, d := range r.Doubts {
		text += "\n  doubt: " + d
	}
	return text
}
