package report_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lab/check"
	"github.com/ringfence/ringfence/lab/history"
)

// run builds a history as a run of the lab would leave it.
type run struct {
	events []history.Event
	random *rand.Rand
	ops    int
	places map[string]int64
	result check.Result
}

// begin is the time on the synthetic machine's clock when its run began.
const begin = int64(4711 * time.Second)

func newRun(scenario, about string) *run {
	r := &run{random: rand.New(rand.NewPCG(1, 2)), places: map[string]int64{}}
	r.result.Verdict = check.Valid
	r.result.Header = &history.Header{
		Scenario: scenario, About: about, Seed: 20260203, Guarded: true, Injector: "local",
		Command:  "make chaos SCENARIO=" + scenario + " SEED=20260203",
		Started:  time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC),
		Versions: []string{"ringfence v0.0.0", "PostgreSQL 17.2", "Redis 7.4", "ZooKeeper 3.9.3"},
		Session:  history.Duration(time.Second),
	}
	first := history.Event{At: begin, Kind: history.Run, Header: r.result.Header}
	r.events = append(r.events, first)
	return r
}

func at(ms float64) int64 { return begin + int64(ms*1e6) }

func (r *run) add(ms float64, e history.Event) {
	e.At = at(ms)
	r.events = append(r.events, e)
}

func (r *run) term(ms float64, process string, s history.State, t fence.Token, text string) {
	r.add(ms, history.Event{Kind: history.Term, Process: process, State: s, Token: t, Text: text})
}

func (r *run) fault(from, to float64, name, text string) {
	r.add(from, history.Event{Kind: history.Fault, Fault: name, State: history.Begin, Text: text})
	r.add(to, history.Event{Kind: history.Fault, Fault: name, State: history.Over, Text: text})
}

// op adds one attempt, which without an outcome is never answered, and returns its name.
func (r *run) op(
	ms, took float64, process, store string, t fence.Token, do history.Do,
	outcome history.Outcome, text string,
) string {
	r.ops++
	name := fmt.Sprintf("%s-%d", process, r.ops)
	e := history.Event{
		Kind: history.Invoke, Process: process + "/" + store, Op: name, Do: do, Store: store,
		Token: t,
	}
	r.add(ms, e)
	f := &r.result.Figures
	if do == history.Write {
		f.Writes++
	}
	if outcome != "" {
		e.Kind, e.Outcome, e.Text = history.Return, outcome, text
		r.add(ms+took, e)
	}
	switch {
	case outcome == history.OK && do == history.Write:
		f.Acknowledged++
		r.committed(name, store, t)
	case outcome == history.Stale:
		f.StaleAttempts++
		f.StaleRefused++
	case outcome == "" || outcome == history.Unknown:
		f.Unknown++
	}
	return name
}

func (r *run) committed(op, store string, t fence.Token) {
	r.places[store]++
	r.events = append(r.events, history.Event{
		At: at(60_000), Kind: history.Evidence, Op: op, Store: store, Token: t, Carried: t,
		Place: r.places[store],
	})
}

// leads adds a term: a process wins it, raises both marks and writes until the end.
func (r *run) leads(from, to float64, process string, t fence.Token, every float64) {
	r.term(from, process, history.Won, t, "")
	r.op(from+8, 14, process, "postgres", t, history.Raise, history.OK, "")
	r.op(from+8, 9, process, "redis", t, history.Raise, history.OK, "")
	r.term(from+30, process, history.Ready, t, "")
	for _, store := range []string{"postgres", "redis"} {
		for ms := from + 32; ms < to; ms += every * (0.6 + 0.8*r.random.Float64()) {
			r.op(ms, 1+2*r.random.Float64(), process, store, t, history.Write, history.OK, "")
		}
	}
}

// tries adds attempts of a leader that was deposed.
func (r *run) tries(from, every float64, n int, process string, t, mark fence.Token) {
	for i := range n {
		ms := from + float64(i)*every
		r.op(ms, 2, process, "postgres", t, history.Write, history.Stale,
			fmt.Sprintf("RF001 stale token: %d is older than the mark %d", t, mark))
		r.op(ms+3, 2, process, "redis", t, history.Write, history.Stale,
			fmt.Sprintf("STALETOKEN %d is older than the mark %d", t, mark))
	}
}

// succession is a run with a paused leader, a leader that is cut off, and a guard that is killed.
func succession() *run {
	r := newRun("succession", "The leader is paused past its session, its successor is cut from "+
		"the coordinator but not from the guard, and the guard is killed and started again.")
	for i, p := range []string{"worker-1", "worker-2", "worker-3"} {
		r.term(900+float64(20*i), p, history.Standing, 0, "")
	}
	r.leads(1000, 3000, "worker-1", 9, 12)
	r.fault(3000, 5200, "pause leader", "worker-1")
	r.op(2999, 0, "worker-1", "postgres", 9, history.Write, "", "")
	r.leads(4080, 8400, "worker-2", 13, 12)
	r.tries(5210, 40, 4, "worker-1", 9, 13)
	r.term(5390, "worker-1", history.Lost, 9, "the coordinator has ended the session")
	r.tries(5440, 90, 3, "worker-1", 9, 13)
	r.term(5760, "worker-1", history.Left, 9, "")
	r.term(5800, "worker-1", history.Standing, 0, "")
	r.fault(7300, 9300, "cut leader from coordinator", "worker-2, link to the coordinator")
	r.leads(8380, 10_000, "worker-3", 21, 12)
	r.term(8420, "worker-2", history.Lost, 13, "no answer from the coordinator for 1s")
	r.tries(8440, 110, 6, "worker-2", 13, 21)
	r.fault(10_000, 10_800, "kill guard", "guard-1")
	r.op(9998, 3, "worker-3", "postgres", 21, history.Write, history.Unknown,
		"connection reset by peer")
	r.op(9999, 3, "worker-3", "redis", 21, history.Write, history.Unknown, "EOF")
	for ms := 10_030.0; ms < 10_800; ms += 110 {
		r.op(ms, 4, "worker-3", "postgres", 21, history.Write, history.Failed, "connection refused")
		r.op(ms+9, 4, "worker-3", "redis", 21, history.Write, history.Refused,
			"FENCEDOWN the guard is not ready")
	}
	return r
}

// finish adds the rest of the run, in which an operator deposes the leader, and its figures.
func (r *run) finish() *run {
	for ms := 10_830.0; ms < 12_000; ms += 12 {
		r.op(ms, 2, "worker-3", "postgres", 21, history.Write, history.OK, "")
		r.op(ms+4, 2, "worker-3", "redis", 21, history.Write, history.OK, "")
	}
	r.term(11_400, "worker-2", history.Left, 13, "")
	r.term(11_420, "worker-2", history.Standing, 0, "")
	r.fault(12_000, 12_050, "depose leader", "worker-3")
	r.term(12_030, "worker-3", history.Lost, 21, "the znode was deleted")
	r.leads(12_060, 13_500, "worker-1", 30, 12)
	r.tries(12_200, 60, 4, "worker-3", 21, 30)
	r.term(12_700, "worker-3", history.Left, 21, "")
	r.events = append(r.events, history.Event{At: at(60_100), Kind: history.End})
	f := &r.result.Figures
	f.Changes, f.Before, f.During, f.After, f.Linearized = 3, 161.2, 98.4, 158.9, r.ops
	for _, ms := range []int{1112, 21, 64} {
		f.TakeOvers = append(f.TakeOvers, history.Duration(time.Duration(ms)*time.Millisecond))
	}
	return r
}

// valid is a run in which everything held.
func valid() *run {
	r := succession()
	r.tries(10_900, 120, 3, "worker-2", 13, 21)
	return r.finish()
}

// The violations in the invalid run.
const (
	firstText  = "postgres: token 13 was committed behind 21"
	secondText = "redis: token 13 was committed behind 21"
)

// invalid is the same run with a guard that forgets its marks when it is killed. It also returns
// the stale writes that were committed.
func invalid() (r *run, first, second string) {
	r = succession()
	r.result.Header.Control = "memory-mark"
	r.result.Header.Scenario = "guard-restart"
	r.op(10_826, 2, "worker-3", "postgres", 21, history.Write, history.OK, "")
	r.op(10_826, 2, "worker-3", "redis", 21, history.Write, history.OK, "")
	first = r.op(10_900, 3, "worker-2", "postgres", 13, history.Write, history.OK, "")
	second = r.op(11_050, 3, "worker-2", "redis", 13, history.Write, history.OK, "")
	r.result.Verdict = check.Invalid
	r.result.Problems = []check.Problem{
		{Invariant: "I1", At: at(10_903), Process: "worker-2/postgres", Op: first, Text: firstText},
		{Invariant: "I1", At: at(11_053), Process: "worker-2/redis", Op: second, Text: secondText},
		{Invariant: "model", Text: "no order of the operations explains the answers of redis"},
	}
	r.finish()
	f := &r.result.Figures
	f.StaleAccepted, f.StaleAttempts = 2, f.StaleAttempts+2
	return r, first, second
}
