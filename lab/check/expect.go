package check

import (
	"strings"
	"time"

	"github.com/ringfence/ringfence/lab/history"
)

// expected checks the other demands of the header.
func (r *run) expected(f *findings, figures *Figures) {
	r.fewChanges(f)
	r.stepDown(f)
	r.takeOver(f)
	r.refusals(f)
	r.spread(f)
	r.fewTakenBack(f, figures)
	figures.Kills = r.kills()
	if figures.Kills < r.expect.Kills {
		f.doubt("%d processes were killed; the scenario wants %d", figures.Kills, r.expect.Kills)
	}
}

// fewChanges: leadership does not change more often than the faults explain.
func (r *run) fewChanges(f *findings) {
	most := r.expect.MostChanges
	if most == 0 {
		return
	}
	if n := r.changes(r.finalPhase()); n > max(0, most) {
		f.atRun("expect", 0, "", "leadership changed %d times before the final phase; "+
			"the scenario allows %d", n, max(0, most))
	}
}

// stepDown: a leader that is hit by a fault loses its term, by its own clock, within the bound. If
// the fault was shorter than the bound and the leader kept its term, that says nothing. The final
// phase demands nothing: it takes the term away at the coordinator.
func (r *run) stepDown(f *findings) {
	if r.expect.StepDown == 0 {
		return
	}
	judged := false
	for _, t := range r.injected() {
		for process, since := range r.leaders(t.begin) {
			if !t.isFinalPhase() && t.hits(process) {
				judged = r.stepsDown(f, t, since) || judged
			}
		}
	}
	if !judged {
		f.doubt("no fault has hit a leader for %s, so nothing shows whether it steps down in time",
			time.Duration(r.expect.StepDown))
	}
}

// stepsDown judges one leader and one fault; false if that says nothing.
func (r *run) stepsDown(f *findings, hit fault, since history.TermEvent) bool {
	bound := int64(r.expect.StepDown)
	lost := r.termOver(history.Worker(since.Process), hit.begin)
	switch {
	case lost-hit.begin <= bound:
	case hit.end-hit.begin < bound:
		return false
	case lost == history.Never:
		f.atRun("expect", hit.end, since.Process,
			"%s never gave up the term of token %s, though %q lasted %s; the bound is %s",
			since.Process, since.Token, hit.name, between(hit.begin, min(hit.end, r.last())),
			time.Duration(bound))
	default:
		f.atRun("expect", lost, since.Process,
			"%s gave up the term of token %s %s after %q had begun; the bound is %s",
			since.Process, since.Token, between(hit.begin, lost), hit.name, time.Duration(bound))
	}
	return true
}

// termOver returns when a worker first said, from a time on, that its term is over; or Never.
func (r *run) termOver(process string, from int64) int64 {
	for _, t := range r.terms.Events {
		over := t.State == history.Lost || t.State == history.Left
		if history.Worker(t.Process) == process && t.At >= from && over {
			return t.At
		}
	}
	return history.Never
}

// leaders returns the workers that led at a time, as they believed.
func (r *run) leaders(at int64) map[string]history.TermEvent {
	leads := map[string]history.TermEvent{}
	for _, t := range r.terms.Events {
		if t.At >= at {
			break
		}
		switch t.State {
		case history.Ready:
			leads[history.Worker(t.Process)] = t
		case history.Lost, history.Left, history.Standing:
			delete(leads, history.Worker(t.Process))
		}
	}
	return leads
}

// refusals: somebody was refused with each code that the scenario is about.
func (r *run) refusals(f *findings) {
	for _, code := range r.expect.Refusals {
		seen := false
		for _, o := range r.ops {
			refused := o.outcome == history.Stale || o.outcome == history.Refused
			seen = seen || refused && strings.HasPrefix(o.text, code)
		}
		if !seen {
			f.atRun("expect", 0, "", "nobody was refused with %s, which the scenario is about",
				code)
		}
	}
}

// kills counts the processes that a fault or a failpoint killed, each once. A failpoint ends its
// process with exit code 137, as a kill does. A process that ends during its own kill was counted
// with that.
func (r *run) kills() int {
	n := 0
	for _, t := range r.injected() {
		n += t.kills()
	}
	counted := map[string]bool{} // workers that reported a failpoint
	for _, e := range r.events {
		if e.Kind != history.Note {
			continue
		}
		worker := history.Worker(e.Process)
		cause, ended := strings.CutPrefix(e.Text, history.Ended)
		killed := strings.Contains(cause, "137") || strings.Contains(cause, "killed")
		switch {
		case strings.HasPrefix(e.Text, history.Failpoint):
			n++
			counted[worker] = true
		case ended && counted[worker]:
			delete(counted, worker)
		case ended && killed && !r.killedBy(e):
			n++
		}
	}
	return n
}

// killedBy reports whether a fault was killing that process.
func (r *run) killedBy(e history.Event) bool {
	for _, t := range r.injected() {
		during := t.begin <= e.At && e.At <= t.end
		if t.kills() > 0 && during && t.hits(history.Worker(e.Process)) {
			return true
		}
	}
	return false
}
