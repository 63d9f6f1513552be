package check

import (
	"strings"
	"time"

	"github.com/ringfence/ringfence/lab/history"
)

// expected judges what else the header demands.
func (r *run) expected(f *findings, figures *Figures) {
	r.quiet(f)
	r.stepDown(f)
	r.refusals(f)
	figures.Kills = r.kills()
	if figures.Kills < r.expect.Kills {
		f.doubt("%d processes were killed; the scenario wants %d", figures.Kills, r.expect.Kills)
	}
}

// quiet: leadership does not change more often than the faults account for.
func (r *run) quiet(f *findings) {
	most := r.expect.MostChanges
	if most == 0 {
		return
	}
	if n := r.changes(r.coda()); n > max(0, most) {
		f.atRun("expect", 0, "", "leadership changed %d times before the coda; the scenario allows for %d", n, max(0, most))
	}
}

// stepDown: a leader that a fault hit has lost its term by its own reckoning within the bound. When the fault was shorter than
// the bound and the leader kept its term, nothing can be said. The coda demands nothing: it takes the term away at the coordinator.
func (r *run) stepDown(f *findings) {
	if r.expect.StepDown == 0 {
		return
	}
	judged := false
	for _, t := range r.done() {
		for process, since := range r.leaders(t.begin) {
			if !t.coda() && t.hits(process) {
				judged = r.stepsDown(f, t, since) || judged
			}
		}
	}
	if !judged {
		f.doubt("no fault has hit a leader for %s: whether it steps down in time was not seen", time.Duration(r.expect.StepDown))
	}
}

// stepsDown judges one leader and one fault; false when nothing can be said.
func (r *run) stepsDown(f *findings, hit fault, since history.Dated) bool {
	bound := int64(r.expect.StepDown)
	lost := r.givenUp(history.Worker(since.Process), hit.begin)
	switch {
	case lost-hit.begin <= bound:
	case hit.end-hit.begin < bound:
		return false
	case lost == never:
		f.atRun("expect", hit.end, since.Process, "%s never gave the term of token %s up, though %q lasted %s; %s were allowed",
			since.Process, since.Token, hit.name, between(hit.begin, min(hit.end, r.last())), time.Duration(bound))
	default:
		f.atRun("expect", lost, since.Process, "%s gave the term of token %s up %s after %q had begun; %s were allowed",
			since.Process, since.Token, between(hit.begin, lost), hit.name, time.Duration(bound))
	}
	return true
}

// givenUp is when a worker said first after a time that its term is over; never, when it did not.
func (r *run) givenUp(process string, after int64) int64 {
	for _, t := range r.ages.Terms {
		if history.Worker(t.Process) == process && t.At >= after && (t.State == history.Lost || t.State == history.Left) {
			return t.At
		}
	}
	return never
}

// leaders are the workers that led at a time, by their own belief.
func (r *run) leaders(at int64) map[string]history.Dated {
	leads := map[string]history.Dated{}
	for _, t := range r.ages.Terms {
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

// refusals: each code that the scenario is about has been the answer to somebody.
func (r *run) refusals(f *findings) {
	for _, code := range r.expect.Refusals {
		seen := false
		for _, o := range r.ops {
			refused := o.outcome == history.Stale || o.outcome == history.Refused
			seen = seen || refused && strings.HasPrefix(o.text, code)
		}
		if !seen {
			f.atRun("expect", 0, "", "nobody was refused with %s, which the scenario is about", code)
		}
	}
}

// What the notes of killed workers begin with: the worker's own last word at a failpoint, and the lab's of any that has ended.
const (
	failpointPrefix = "failpoint "
	endedPrefix     = "ended: "
)

// kills counts the processes that a fault or a failpoint has killed, each once: a failpoint ends its process with exit code
// 137, as a kill does, and one that ends during its own kill was counted with that.
func (r *run) kills() int {
	n := 0
	for _, t := range r.done() {
		n += t.kills()
	}
	counted := map[string]bool{} // workers that have said that they end
	for _, e := range r.events {
		if e.Kind != history.Note {
			continue
		}
		cause, ended := strings.CutPrefix(e.Text, endedPrefix)
		switch {
		case strings.HasPrefix(e.Text, failpointPrefix):
			n++
			counted[history.Worker(e.Process)] = true
		case ended && counted[history.Worker(e.Process)]:
			delete(counted, history.Worker(e.Process))
		case ended && (strings.Contains(cause, "137") || strings.Contains(cause, "killed")) && !r.killedBy(e):
			n++
		}
	}
	return n
}

// killedBy tells that a fault was killing that very process.
func (r *run) killedBy(e history.Event) bool {
	for _, t := range r.done() {
		if t.kills() > 0 && t.begin <= e.At && e.At <= t.end && t.hits(history.Worker(e.Process)) {
			return true
		}
	}
	return false
}
