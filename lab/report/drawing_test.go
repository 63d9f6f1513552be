package report

import (
	"fmt"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lab/check"
	"github.com/ringfence/ringfence/lab/history"
)

// A run of an hour has to open too; only unremarkable operations are left out.
func TestThinKeepsRemarkableOperations(t *testing.T) {
	var events []history.Event
	add := func(op string, o history.Outcome) {
		e := history.Event{
			At: int64(len(events)+1) * 1000, Kind: history.Invoke, Process: "worker-1/redis",
			Op: op, Do: history.Write, Store: "redis", Token: 7,
		}
		events = append(events, e)
		e.At, e.Kind, e.Outcome = e.At+500, history.Return, o
		events = append(events, e)
	}
	const n = 100_000
	for i := range n {
		add(fmt.Sprint("ok-", i), history.OK)
		if i%1000 == 0 {
			add(fmt.Sprint("stale-", i), history.Stale)
		}
	}
	var problems []check.Problem // more than one, because one operation in three is kept anyway
	for i := range 3 {
		problems = append(problems, check.Problem{Invariant: "I3", Op: fmt.Sprint("ok-", 77777+i)})
	}
	d := read(events, check.Result{Problems: problems})
	kept := map[mark]int{}
	for _, o := range d.Ops {
		kept[o.Mark]++
	}
	if d.OneIn != 3 || kept[ok] < n/3 || kept[ok] > n/3+3 || kept[stale] != n/1000 {
		t.Errorf("one in %d was kept: %v", d.OneIn, kept)
	}
	for i, p := range d.Problems {
		if p.Op < 0 || d.Ops[p.Op].ID != problems[i].Op {
			t.Errorf("the operation of %+v is at %d", problems[i], p.Op)
		}
	}
	if d.terms != nil {
		t.Errorf("terms without a term: %v", d.terms)
	}
}

// A fault may never end, or end without a beginning, or have the name of another open one.
func TestFaultsThatAreNotWellPaired(t *testing.T) {
	var d reading
	d.To = 100
	for i, f := range []struct {
		name  string
		state history.State
	}{
		{"x", history.Over}, {"a", history.Begin}, {"a", history.Begin}, {"a", history.Over},
		{"b", history.Begin}, {"a", history.Over},
	} {
		d.events = append(d.events, history.Event{
			At: int64(i) * 1e6, Kind: history.Fault, Fault: f.name, State: f.state,
		})
	}
	d.readFaults()
	got := ""
	for _, f := range d.faults {
		got += fmt.Sprintf("%s %v-%v %v; ", f.name, f.from, f.to, f.open)
	}
	if want := "a 1-5 false; a 2-3 false; b 4-100 true; "; got != want {
		t.Errorf("faults are %q, want %q", got, want)
	}
}

func TestTakeOver(t *testing.T) {
	for _, c := range []struct {
		ms   []int
		want string
	}{
		{nil, "-"}, {[]int{20}, "20ms (20ms)"}, {[]int{900, 20, 60}, "60ms (900ms)"},
		{[]int{900, 20, 60, 100}, "80ms (900ms)"},
	} {
		var f check.Figures
		for _, ms := range c.ms {
			f.TakeOvers = append(f.TakeOvers, history.Duration(time.Duration(ms)*time.Millisecond))
		}
		if got := TakeOver(f); got != c.want {
			t.Errorf("take-overs of %v ms are %s, want %s", c.ms, got, c.want)
		}
	}
}

func TestTargets(t *testing.T) {
	for _, c := range []struct {
		event history.Event
		want  string
	}{
		{history.Event{Fault: "pause leader #1", Text: "worker-2"}, "[worker-2]"},
		{history.Event{Fault: "kill postgres #1", Text: "SIGKILL"}, "[postgres]"},
		{history.Event{Fault: "kill zookeeper #2", Text: "zookeeper-10, zookeeper-2"},
			"[zookeeper-2 zookeeper-10]"},
		{history.Event{Fault: "promote coordinator #3", Text: "elections, elections-2"},
			"[elections elections-2]"},
		{history.Event{Fault: "inside", Process: "worker-3/postgres"}, "[worker-3]"},
		{history.Event{Fault: "strange"}, "[]"},
	} {
		if got := fmt.Sprint(targets(c.event)); got != c.want {
			t.Errorf("targets of %+v are %s, want %s", c.event, got, c.want)
		}
	}
}

// A stale write is shown as accepted even if its process never learned it, and a violation of I1
// shows it without evidence.
func TestJudge(t *testing.T) {
	events := []history.Event{
		{At: 1, Kind: history.Invoke, Process: "worker-1", Op: "silent", Store: "redis", Token: 5},
		{At: 2, Kind: history.Invoke, Process: "worker-2", Op: "named", Store: "redis", Token: 6},
		{At: 3, Kind: history.Invoke, Process: "worker-2", Op: "good", Store: "postgres", Token: 6},
		{At: 9, Kind: history.Evidence, Op: "silent", Store: "redis", Token: 5, Place: 2},
		{At: 9, Kind: history.Evidence, Op: "other", Store: "redis", Token: 6, Place: 1},
		{At: 9, Kind: history.Evidence, Op: "good", Store: "postgres", Token: 5, Place: 3},
	}
	d := read(events, check.Result{Problems: []check.Problem{{Invariant: "I1", Op: "named"}}})
	for op, want := range map[string]mark{"silent": accepted, "named": accepted, "good": unknown} {
		if got := d.byOp[op].Mark; got != want {
			t.Errorf("%s is %s, want %s", op, got, want)
		}
	}
}

// A coordinator that was wiped or restored counts from a lower number, under another issuer: its
// tokens are not stale.
func TestTokensOfAnotherIssuerAreNotStale(t *testing.T) {
	var events []history.Event
	add := func(e history.Event) {
		e.At = int64(len(events)+1) * 1e6
		events = append(events, e)
	}
	for i, term := range []struct {
		token  fence.Token
		issuer fence.Issuer
	}{{400, "before"}, {7, "after"}, {9, "after"}, {8, "after"}} {
		w := history.Event{
			Kind: history.Term, Process: fmt.Sprint("worker-", i), State: history.Ready,
			Token: term.token, Issuer: term.issuer,
		}
		add(w)
		w = history.Event{
			Kind: history.Invoke, Process: w.Process + "/redis", Op: fmt.Sprint(i),
			Do: history.Write, Store: "redis", Token: term.token,
		}
		add(w)
		w.Kind, w.Outcome = history.Return, history.OK
		add(w)
		w.Kind, w.Place = history.Evidence, int64(i+1)
		add(w)
	}
	d := read(events, check.Result{})
	for i, want := range []mark{ok, ok, ok, accepted} { // the last is stale within its own issuer
		if o := d.byOp[fmt.Sprint(i)]; o.Mark != want || o.Behind != (want == accepted) {
			t.Errorf("write %d is drawn as %s, behind is %v; want %s", i, o.Mark, o.Behind, want)
		}
	}
	if n := len(d.Stairs[0].Steps); n != 3 {
		t.Errorf("the mark rose %d times", n)
	}
}
