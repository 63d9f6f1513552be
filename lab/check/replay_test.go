package check_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/lab/check"
	"github.com/ringfence/ringfence/lab/history"
)

// moved is a recorded history in which something was moved, and the rules that this breaks.
//
// In the history token 15 leads first, then 17, then 41. Each term has two sessions, one after the
// other.
type moved struct {
	name   string
	breaks string
	move   func(*recording)
}

type recording struct {
	t      *testing.T
	events []history.Event
}

// step returns the n-th step of the fence of a kind, under a token.
func (r *recording) step(do history.Do, token fence.Token, n int) *history.Event {
	return r.nth(n, func(e history.Event) bool {
		return e.Kind == history.Fence && e.Do == do && e.Token == token
	})
}

// write returns the last write to Postgres under a token.
func (r *recording) write(token fence.Token) *history.Event {
	return r.nth(-1, func(e history.Event) bool {
		return e.Kind == history.Evidence && e.Store == pg && e.Token == token
	})
}

// nth returns the n-th event, from 0, or from -1 the last one.
func (r *recording) nth(n int, is func(history.Event) bool) *history.Event {
	r.t.Helper()
	var all []int
	for i, e := range r.events {
		if is(e) {
			all = append(all, i)
		}
	}
	if n < 0 {
		n += len(all)
	}
	if n < 0 || n >= len(all) {
		r.t.Fatal("the history has no such event")
	}
	return &r.events[all[n]]
}

// remove removes events.
func (r *recording) remove(is func(history.Event) bool) {
	r.events = slices.DeleteFunc(r.events, is)
}

var movedHistories = []moved{
	{"nothing", "", func(*recording) {}},
	{"an older mark is raised once more", "open raise register", func(r *recording) {
		r.step(history.Raise, 15, 0).Place = r.step(history.Forget, 17, 0).Place
	}},
	{"a session is recorded before the mark is raised", "register", func(r *recording) {
		r.step(history.Register, 17, 0).Place = r.step(history.Raise, 17, 0).Place - 1
	}},
	{"a session is recorded before the older one is gone", "open register", func(r *recording) {
		r.step(history.Forget, 15, 1).Place = r.step(history.Register, 17, 0).Place + 1
	}},
	{"a session is recorded before the registry is complete", "register", func(r *recording) {
		r.step(history.Complete, 0, 0).Place = r.step(history.Register, 15, 0).Place + 1
	}},
	{"a session is recorded under a mark that was restored", "open register", func(r *recording) {
		r.step(history.Raise, 17, 0).Copied = true
	}},
	{"a session is recorded in another run of the server", "register", func(r *recording) {
		r.step(history.Register, 41, 0).Start = "another"
	}},
	{"the gate is opened before the older session is gone", "open", func(r *recording) {
		r.step(history.Open, 17, 0).Place = r.step(history.Raise, 17, 0).Place
	}},
	{"the gate is opened for another token than the mark", "open", func(r *recording) {
		r.step(history.Open, 17, 0).Token = 16
	}},
	{"a write comes behind the removal of its session's record", "forget", func(r *recording) {
		r.write(15).Place = r.step(history.Forget, 15, 1).Place + 1
	}},
	{"a write comes in a session that was never removed, after a newer one was let in", "I1 open " +
		"register write",
		func(r *recording) {
			r.write(15).Place = r.write(17).Place
			r.remove(func(e history.Event) bool { return e.Do == history.Forget && e.Token == 15 })
		}},
	{"a write comes from a backend without a record, before its gate was opened", "enter",
		func(r *recording) {
			w := r.nth(0, func(e history.Event) bool { return e.Kind == history.Evidence && e.Store == pg })
			w.Backend, w.Place = "1@1", r.step(history.Raise, 15, 0).Place
		}},
	{"a write comes from a backend without a record, after a newer token was let in", "enter",
		func(r *recording) {
			w := r.write(15)
			w.Backend, w.Place = "1@1", r.step(history.Open, 17, 0).Place+1
		}},
	{"a session records itself after a newer token was let in", "enter", func(r *recording) {
		s := *r.step(history.Register, 15, 0)
		s.Do, s.Backend, s.Place = history.Attach, "1@1", r.step(history.Forget, 17, 1).Place
		forgotten := s
		forgotten.Do = history.Forget
		r.events = append(r.events[:len(r.events)-1:len(r.events)-1], s, forgotten,
			r.events[len(r.events)-1])
	}},
	{"a worker raises a mark, and wins its token later", "elected", func(r *recording) {
		won := r.nth(-1, func(e history.Event) bool {
			return e.Kind == history.Term && e.State == history.Won
		})
		last := r.nth(-1, func(e history.Event) bool {
			return e.Kind == history.Return && e.Do == history.Raise && e.Token == won.Token
		})
		ready := r.nth(-1, func(e history.Event) bool {
			return e.Kind == history.Term && e.State == history.Ready && e.Token == won.Token
		})
		*won, *last = *last, *won
		won.At, last.At = last.At, ready.At
	}},
}

// change is a step of a job, with its Return.
func change(process, has string, state history.State, version, made int64) []history.Event {
	e := history.Event{
		Kind: history.Invoke, Process: process, Op: fmt.Sprintf("%s.%d", process, made),
		Do: history.Change, Key: "job",
		State: state, Version: version, Attempt: 1, Text: has, At: made * ms,
	}
	if state == history.JobWaiting {
		e.Attempt = 0
	}
	r := e
	r.Kind, r.Outcome, r.Made, r.Text, r.At = history.Return, history.OK, made, "", e.At+1
	return []history.Event{e, r}
}

// aJob is the life of a job that is assigned to worker-1.
func aJob(runs, ends string) []history.Event {
	return slices.Concat(
		change("submitter", "", history.JobWaiting, 0, 1),
		change("worker-3", "worker-1", history.JobAssigned, 1, 2),
		change(runs, runs, history.JobRunning, 2, 3), change(ends, "", history.JobDone, 3, 4),
	)
}

func TestAMovedStepMakesAHistoryInvalid(t *testing.T) {
	for _, m := range movedHistories {
		r := &recording{t, readRecorded(t, "steps-recorded.jsonl")}
		m.move(r)
		if got := broken(check.Check(t.Context(), r.events)); got != m.breaks {
			t.Errorf("%s: breaks %q, want %q", m.name, got, m.breaks)
		}
	}
}

func TestOnlyTheWorkerThatHasAJobGoesOnWithIt(t *testing.T) {
	for _, c := range []struct{ runs, ends, breaks string }{
		{"worker-1", "worker-1", ""}, {"worker-2", "worker-2", "mine"}, {"worker-1", "worker-2", "mine"},
	} {
		if got := broken(check.Check(t.Context(), aJob(c.runs, c.ends))); got != c.breaks {
			t.Errorf("%+v: breaks %q", c, got)
		}
	}
}

// both are the rules that both checkers have.
var both = strings.Fields("I1 I2 I3 raise register open forget write enter elected mine")

// broken names the rules that a history breaks, of those that both checkers have.
func broken(r check.Result) string {
	found := map[string]bool{}
	for _, p := range r.Problems {
		if slices.Contains(both, p.Invariant) {
			found[p.Invariant] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(found)), " ")
}

func TestTheSecondCheckerAgrees(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	all := map[string][]history.Event{
		"job": aJob("worker-1", "worker-1"), "job of another": aJob("worker-2", "worker-2"),
	}
	for name := range recorded {
		all[name] = readRecorded(t, name)
	}
	for _, m := range movedHistories {
		r := &recording{t, readRecorded(t, "steps-recorded.jsonl")}
		m.move(r)
		all[m.name] = r.events
	}
	for seed := range uint64(20) {
		for _, flaw := range []string{none, admitStale, loseAcked} {
			all[fmt.Sprintf("simulated %d %s", seed, flaw)] = newSimulation(seed, flaw).run(400)
		}
	}
	dir := t.TempDir()
	names := slices.Sorted(maps.Keys(all))
	args := []string{"../history/check.py"}
	for i, name := range names {
		args = append(args, filepath.Join(dir, fmt.Sprint(i)))
		save(t, args[i+1], all[name])
	}
	out, _ := exec.CommandContext(t.Context(), python, args...).CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != len(names) {
		t.Fatalf("%d answers about %d histories:\n%s", len(lines), len(names), out)
	}
	rejected := 0
	for i, name := range names {
		want := "accepted"
		if rules := broken(check.Check(t.Context(), all[name])); rules != "" {
			want = "rejected: " + rules
			rejected++
		}
		_, got, _ := strings.Cut(lines[i], ": ")
		if got == "not completed" {
			got = "accepted"
		}
		if got != want {
			t.Errorf("%s: the second checker says %q, the first one %q", name, got, want)
		}
	}
	if rejected < 20 || rejected == len(names) {
		t.Errorf("%d of %d histories are rejected", rejected, len(names))
	}
}

func save(t *testing.T, file string, events []history.Event) {
	t.Helper()
	out, err := os.Create(file)
	must.Succeed(t, err)
	defer out.Close()
	w := history.NewWriter(out)
	for _, e := range events {
		w.Add(e)
	}
	must.Succeed(t, w.Err())
}
