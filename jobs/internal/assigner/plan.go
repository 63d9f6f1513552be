package assigner

import (
	"path"
	"slices"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/jobs/assign"
	"github.com/ringfence/ringfence/jobs/internal/records"
	"github.com/ringfence/ringfence/jobs/job"
)

// traits are what matters about a waiting job. They never change.
type traits struct {
	kind     string
	labels   []string
	resource fence.Resource // "" if it has none yet
}

// assignDue assigns jobs whose time has come, in their order, as far as there is room. It returns
// when to look again.
func (a *assigner) assignDue() (next time.Duration, err error) {
	plan := a.plan()
	ids, next := a.due(plan)
	if len(ids) > 0 {
		if err := a.number(len(ids)); err != nil {
			return 0, err
		}
		err = a.steps(ids, chunk,
			func(r records.Record) []documents.Write { return a.choose(plan, r) },
			func(moved []job.ID, made bool) { a.note(plan, moved, made) })
		next = min(next, settle)
	}
	if (plan.full || plan.blocked) && (plan.pending || len(ids) > 0) {
		next = unseen // some of them may end before a watch shows them
	}
	return next, err
}

// due returns the jobs to look at now, and when the next one is due. Of those that were not looked
// at before, it may return more than there is room for: they may suit nobody.
func (a *assigner) due(p *plan) (ids []job.ID, next time.Duration) {
	next = time.Hour
	now, room := a.q.Now(), p.room
	for _, name := range p.waiting {
		if p.full = room <= 0; p.full {
			break // when a job ends, that begins another round
		}
		id, _, due, ok := records.ParseEntry(name)
		if !ok {
			continue
		}
		if due.After(now) {
			next = min(next, due.Sub(now))
			continue
		}
		t := a.known(id)
		if t != nil && !p.accepts(t) {
			continue
		}
		ids = append(ids, id)
		if t != nil || len(ids) >= chunk {
			room--
		}
	}
	return ids, next
}

// plan is one round's view of the workers.
type plan struct {
	waiting []string
	loads   []assign.Load // of members that take jobs, in order of ID
	offers  map[fence.Token]records.Offer
	busy    map[fence.Resource]bool // a job that leads it, or will, is assigned
	room    int
	full    bool // there are more jobs than room
	blocked bool // a job waits for another one with its resource
	pending bool // assignments that no watch has shown take some of the room
	chosen  map[job.ID]choice
}

// choice is the worker that was chosen for a job.
type choice struct {
	worker     fence.Token
	entry      string // that it has left
	assignment string
	resource   fence.Resource
}

func (a *assigner) plan() *plan {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := &plan{
		offers: map[fence.Token]records.Offer{}, chosen: map[job.ID]choice{},
		busy: map[fence.Resource]bool{},
	}
	for _, w := range a.workers {
		for _, r := range w.resources {
			p.busy[r] = r != "" // of a job that is gone
		}
	}
	draining := records.Set(a.view.draining)
	for id, m := range a.view.members {
		o := records.ParseOffer(m)
		load := assign.Load{ID: id, Name: m.Name, Limit: o.Capacity}
		w := a.workers[id]
		if w == nil || !w.known || draining[id.String()] {
			continue
		}
		load.Jobs = w.load()
		p.pending = p.pending || len(w.pending) > 0
		p.offers[id] = o
		p.room += max(0, load.Limit-load.Jobs)
		p.loads = append(p.loads, load)
	}
	slices.SortFunc(p.loads, func(x, y assign.Load) int { return x.ID.Compare(y.ID) })
	for _, name := range a.view.waiting {
		if _, just := a.assigned[name]; !just {
			p.waiting = append(p.waiting, name)
		}
	}
	return p
}

// known returns what is known about a waiting job, nil if nothing is.
func (a *assigner) known(id job.ID) *traits {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t, known := a.traits[id]; known {
		return &t
	}
	return nil
}

// suits reports whether a job of these traits could be assigned now.
func (p *plan) accepts(t *traits) bool {
	if p.busy[t.resource] {
		p.blocked = true
		return false
	}
	return slices.ContainsFunc(p.loads, func(w assign.Load) bool {
		return w.Jobs < w.Limit && p.offers[w.ID].Accepts(t.kind, t.labels)
	})
}

// choose chooses a worker for a job, and returns the step that assigns it.
func (a *assigner) choose(p *plan, r records.Record) []documents.Write {
	a.mu.Lock()
	if len(a.traits) > 100_000 {
		clear(a.traits)
	}
	a.traits[r.ID] = traits{r.Kind, r.Labels, r.Resource}
	a.mu.Unlock()
	_, again := p.chosen[r.ID] // after a conflict
	now := a.q.Now()
	// The entry, by which the job was chosen, has the time in milliseconds.
	if r.State != job.Waiting || r.Paused || r.Due.Truncate(time.Millisecond).After(now) {
		return nil
	}
	if !again && p.busy[r.Resource] {
		p.blocked = true
		return nil
	}
	fit := p.fit(r.Status, now)
	if len(fit) == 0 {
		return nil
	}
	s, ok := a.withResource(r.Status)
	if !ok {
		return nil
	}
	chosen := fit[a.strategy.Choose(r.Status, fit)]
	if !again {
		i := slices.IndexFunc(p.loads, func(w assign.Load) bool { return w.ID == chosen.ID })
		p.loads[i].Jobs++
	}
	s, writes := a.q.Changes.Assign(r, s, chosen.ID, chosen.Name)
	p.busy[s.Resource] = true
	p.chosen[r.ID] = choice{
		chosen.ID, path.Base(a.q.Paths.Entry(r.Status)), path.Base(a.q.Paths.Assignment(s)), s.Resource,
	}
	return writes
}

// fit returns the workers that could take a job.
func (p *plan) fit(s job.Status, now time.Time) (fit []assign.Load) {
	for _, w := range p.loads {
		returned := s.ReturnedBy == w.ID && now.Sub(s.Returned) < returnedFor
		if w.Jobs < w.Limit && !returned && p.offers[w.ID].Accepts(s.Kind, s.Labels) {
			fit = append(fit, w)
		}
	}
	return fit
}

// note records assignments until the watches show them. One that may not have been made takes room,
// too, but its job is looked at again.
func (a *assigner) note(p *plan, moved []job.ID, made bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range moved {
		c := p.chosen[id]
		w := a.workers[c.worker]
		w.pending[c.assignment], w.resources[c.assignment] = time.Now(), c.resource
		if made {
			a.assigned[c.entry] = time.Now()
		} else {
			w.unsure = true
		}
		delete(a.traits, id)
	}
}
