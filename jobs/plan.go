package jobs

import (
	"path"
	"slices"
	"time"

	"github.com/ringfence/ringfence/documents"
	"github.com/ringfence/ringfence/fence"
)

// traits are what matters about a waiting job. They never change.
type traits struct {
	kind   string
	labels []string
}

// assignDue assigns jobs whose time has come, in their order, as far as there is room. It returns
// when the next one is due.
func (a *assigner) assignDue() (next time.Duration, err error) {
	plan := a.plan()
	next = time.Hour
	var ids []ID
	now := a.q.now()
	full := false
	for _, name := range plan.waiting {
		if full = len(ids) >= plan.room; full {
			break // when a job ends, that begins another round
		}
		id, due, ok := parseEntry(name)
		switch {
		case !ok:
		case due.After(now):
			next = min(next, due.Sub(now))
		case plan.suits(a.known(id)):
			ids = append(ids, id)
		}
	}
	if full && (plan.pending || len(ids) > 0) {
		next = unseen // some of them may end before a watch shows them
	}
	if len(ids) == 0 {
		return next, nil
	}
	if err := a.steps(ids, assignChunk,
		func(r record) []documents.Write { return a.place(plan, r) },
		func(moved []ID, made bool) { a.note(plan, moved, made) }); err != nil {
		return 0, err
	}
	return min(next, settle), nil
}

// plan is one round's view of the workers.
type plan struct {
	waiting []string
	places  []Place // of members that take jobs, in order of ID
	offers  map[fence.Token]offer
	room    int
	pending bool // assignments that no watch has shown take some of the room
	chosen  map[ID]choice
}

// choice is where a job is put.
type choice struct {
	worker     fence.Token
	entry      string // that it has left
	assignment string
}

func (a *assigner) plan() *plan {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := &plan{
		offers: map[fence.Token]offer{}, chosen: map[ID]choice{},
	}
	draining := asSet(a.view.draining)
	for id, m := range a.view.members {
		o := parseOffer(m)
		place := Place{ID: id, Name: m.Name, Limit: o.Capacity}
		w := a.workers[id]
		if w == nil || !w.known || draining[id.String()] {
			continue
		}
		place.Jobs = w.load()
		p.pending = p.pending || len(w.pending) > 0
		p.offers[id] = o
		p.room += max(0, place.Limit-place.Jobs)
		p.places = append(p.places, place)
	}
	slices.SortFunc(p.places, func(x, y Place) int { return x.ID.Compare(y.ID) })
	for _, name := range a.view.waiting {
		if _, just := a.assigned[name]; !just {
			p.waiting = append(p.waiting, name)
		}
	}
	return p
}

// known returns what is known about a waiting job, nil if nothing is.
func (a *assigner) known(id ID) *traits {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t, known := a.traits[id]; known {
		return &t
	}
	return nil
}

// suits reports whether some worker with room could take a job of these traits.
func (p *plan) suits(t *traits) bool {
	if t == nil {
		return len(p.places) > 0
	}
	return slices.ContainsFunc(p.places, func(w Place) bool {
		return w.Jobs < w.Limit && p.offers[w.ID].suits(t.kind, t.labels)
	})
}

// place chooses a worker for a job, and returns the step that assigns it.
func (a *assigner) place(p *plan, r record) []documents.Write {
	a.mu.Lock()
	if len(a.traits) > 100_000 {
		clear(a.traits)
	}
	a.traits[r.ID] = traits{r.Kind, r.Labels}
	a.mu.Unlock()
	if r.State != Waiting || r.Due.After(a.q.now()) {
		return nil
	}
	var fit []Place
	for _, w := range p.places {
		if w.Jobs < w.Limit && p.offers[w.ID].suits(r.Kind, r.Labels) {
			fit = append(fit, w)
		}
	}
	if len(fit) == 0 {
		return nil
	}
	chosen := fit[a.strategy.Choose(r.Status, fit)]
	if _, again := p.chosen[r.ID]; !again { // it is chosen again after a conflict
		i := slices.IndexFunc(p.places, func(w Place) bool { return w.ID == chosen.ID })
		p.places[i].Jobs++
	}
	writes := a.q.layout.assign(r, chosen.ID, chosen.Name)
	p.chosen[r.ID] = choice{
		chosen.ID, path.Base(a.q.entry(r.Status)), path.Base(writes[len(writes)-1].Path),
	}
	return writes
}

// note records assignments until the watches show them. One that may not have been made takes room, too,
// but its job is looked at again.
func (a *assigner) note(p *plan, moved []ID, made bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range moved {
		c := p.chosen[id]
		a.workers[c.worker].pending[c.assignment] = time.Now()
		if made {
			a.assigned[c.entry] = time.Now()
		}
		delete(a.traits, id)
	}
}
