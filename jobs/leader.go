package jobs

import (
	"context"
	"errors"
	"log/slog"
	"path"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ringfence/ringfence/documents"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/internal/backoff"
)

// assigner is the one worker of a group that assigns jobs. All that it writes names its term, so one
// that was deposed assigns nothing.
//
// It keeps no state of its own. What it knows comes from watches of the waiting jobs, the members,
// the assignments of each worker and the requests to cancel; what it has changed itself counts until
// a watch shows it. So a new one goes on where the last one stopped: it takes the jobs back of
// workers that are gone, whenever they left.
type assigner struct {
	q        *Queue
	claim    fence.Claim
	strategy Strategy
	log      *slog.Logger
	group    *errgroup.Group
	ctx      context.Context

	wake chan struct{}

	mu       sync.Mutex
	view     view
	workers  map[fence.Token]*worker // every one that has, or may have, assignments
	traits   map[ID]traits           // of waiting jobs that were looked at
	assigned map[string]time.Time    // entries of jobs that were just assigned
}

// view is what the watches have shown last.
type view struct {
	waiting, cancel, draining []string
	members                   map[fence.Token]group.Member
	seen                      int // which of the four have shown something, one bit each
}

const (
	seenWaiting = 1 << iota
	seenCancel
	seenDraining
	seenMembers
	seenAll = 1<<iota - 1
)

// worker is one member's assignments.
type worker struct {
	listed  map[string]bool      // what the watch has shown
	known   bool                 // it has shown something
	pending map[string]time.Time // just assigned; no watch or reading has shown it since this time
	stop    context.CancelFunc   // of the watch
}

// load is how many jobs it has.
func (w *worker) load() int {
	n := len(w.listed)
	for id := range w.pending {
		if !w.listed[id] {
			n++
		}
	}
	return n
}

// traits are what matters about a waiting job. They never change.
type traits struct {
	kind   string
	labels []string
}

const (
	// chunk is how many jobs one change moves. Each needs five writes at most, and an assignment three.
	chunk       = documents.MaxWrites / 5
	assignChunk = documents.MaxWrites / 3
	// settle is after how long a watch should have shown what was changed.
	settle = 5 * time.Second
	// unseen is after how long assignments that no watch has shown are read, if jobs wait for room.
	unseen = 20 * time.Millisecond
	// sweepEvery is how often finished jobs are looked at that may be forgotten.
	sweepEvery = 10 * time.Second
)

// assign assigns jobs until ctx, which is that of a term, ends.
func assign(
	ctx context.Context, q *Queue, claim fence.Claim, strategy Strategy, log *slog.Logger,
) error {
	a := &assigner{
		q: q, claim: claim, strategy: strategy, log: log, wake: make(chan struct{}, 1),
		workers: map[fence.Token]*worker{}, traits: map[ID]traits{}, assigned: map[string]time.Time{},
	}
	a.group, a.ctx = errgroup.WithContext(ctx)
	// First the workers that may have assignments, then the members: who is no member in a list that
	// was read later is gone for good.
	names, err := q.docs.Names(ctx, q.workers())
	if err != nil {
		return err
	}
	for _, name := range names {
		if id, err := fence.ParseToken(name); err == nil {
			a.track(id)
		}
	}
	a.watch()
	a.group.Go(a.loop)
	return a.group.Wait()
}

// watch starts the watches that last as long as the term.
func (a *assigner) watch() {
	names := func(folder string, bit int, into *[]string) {
		a.group.Go(func() error {
			return a.q.docs.WatchNames(a.ctx, folder, func(names []string) error {
				a.update(func() { *into = names; a.view.seen |= bit })
				return nil
			})
		})
	}
	names(a.q.waiting(), seenWaiting, &a.view.waiting)
	names(a.q.cancel(), seenCancel, &a.view.cancel)
	names(a.q.draining(), seenDraining, &a.view.draining)
	a.group.Go(func() error {
		return a.q.group.Watch(a.ctx, func(all []group.Member) error {
			members := map[fence.Token]group.Member{}
			for _, m := range all {
				members[m.ID] = m
			}
			a.update(func() { a.view.members = members; a.view.seen |= seenMembers })
			return nil
		})
	})
}

// update changes what the assigner knows, and wakes it.
func (a *assigner) update(change func()) {
	a.mu.Lock()
	change()
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// track watches the assignments of a worker. The caller holds no lock.
func (a *assigner) track(id fence.Token) {
	ctx, stop := context.WithCancel(a.ctx)
	w := &worker{listed: map[string]bool{}, pending: map[string]time.Time{}, stop: stop}
	a.mu.Lock()
	a.workers[id] = w
	a.mu.Unlock()
	a.group.Go(func() error {
		err := a.q.docs.WatchNames(ctx, a.q.layout.assigned(id), func(names []string) error {
			a.update(func() { w.show(names) })
			return nil
		})
		if ctx.Err() != nil {
			return nil
		}
		return err
	})
}

// show takes over what the watch has shown.
func (w *worker) show(names []string) {
	w.known = true
	clear(w.listed)
	for _, name := range names {
		w.listed[name] = true
		delete(w.pending, name)
	}
}

// loop does what there is to do, and waits for more.
func (a *assigner) loop() error {
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	for failures := 0; ; {
		next, err := a.round()
		switch {
		case a.ctx.Err() != nil:
			return context.Cause(a.ctx)
		case err != nil && !again(err):
			return err // deposed, or refused by the coordinator
		case err != nil:
			failures++
			a.log.Warn("jobs cannot be assigned; trying again", "error", err)
			next = backoff.After(failures, backoff.Least, backoff.Most)
		default:
			failures = 0
		}
		timer := time.NewTimer(next)
		select {
		case <-a.wake:
		case <-timer.C:
		case <-sweep.C:
			err = a.sweep()
		case <-a.ctx.Done():
		}
		timer.Stop()
		if err != nil && !again(err) {
			return err
		}
	}
}

// round takes back what workers had that are gone, cancels, and assigns. It returns when the next
// job is due.
func (a *assigner) round() (next time.Duration, err error) {
	a.mu.Lock()
	ready := a.view.seen == seenAll
	a.mu.Unlock()
	if !ready {
		return time.Hour, nil
	}
	if err := a.release(); err != nil {
		return 0, err
	}
	if err := a.cancelAsked(); err != nil {
		return 0, err
	}
	if err := a.enlist(); err != nil {
		return 0, err
	}
	if err := a.refresh(); err != nil {
		return 0, err
	}
	return a.assignDue()
}

// enlist notes durably which members may be assigned jobs, before the first one is.
func (a *assigner) enlist() error {
	a.mu.Lock()
	var fresh []fence.Token
	for id, m := range a.view.members {
		if a.workers[id] == nil && parseOffer(m).Capacity > 0 {
			fresh = append(fresh, id)
		}
	}
	a.mu.Unlock()
	for _, id := range fresh {
		_, err := a.q.docs.Change(a.ctx, documents.Change{
			While:  []fence.Claim{a.claim},
			Writes: []documents.Write{documents.Create(a.q.worker(id), nil)},
		})
		if err != nil && !errors.Is(err, documents.ErrConflict) { // it is there: an answer was lost
			return err
		}
		a.track(id)
	}
	return nil
}

// steps makes a step of each of these jobs, so many in one change. next returns no writes for a job
// that needs no step. done is told which steps were made, or, if the answer was lost, may have been.
func (a *assigner) steps(
	ids []ID, chunk int, next func(record) []documents.Write, done func(moved []ID, made bool),
) error {
	for some := range slices.Chunk(ids, chunk) {
		moved, err := a.together(some, next)
		if errors.Is(err, documents.ErrConflict) { // one of them has changed
			for _, id := range some {
				one, err := a.together([]ID{id}, next)
				if err != nil && !errors.Is(err, documents.ErrConflict) {
					return err
				}
				if err == nil {
					done(one, true)
				}
			}
			continue
		}
		if err == nil || errors.Is(err, documents.ErrUnknown) {
			done(moved, err == nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// together makes a step of each of these jobs in one change.
func (a *assigner) together(
	ids []ID, next func(record) []documents.Write,
) (moved []ID, err error) {
	var paths []string
	for _, id := range ids {
		paths = append(paths, a.q.status(id))
	}
	docs, err := a.q.docs.Get(a.ctx, paths...)
	if err != nil {
		return nil, err
	}
	var writes []documents.Write
	for i, d := range docs {
		r, err := parse(d)
		if err != nil {
			if !errors.Is(err, errNoJob) {
				a.log.Error("a job is stuck", "job", string(ids[i]), "error", err)
			}
			continue
		}
		if step := next(r); len(step) > 0 {
			writes, moved = append(writes, step...), append(moved, r.ID)
		}
	}
	if len(writes) == 0 {
		return nil, nil
	}
	_, err = a.q.docs.Change(a.ctx, documents.Change{While: []fence.Claim{a.claim}, Writes: writes})
	return moved, err
}

// release takes back the jobs of workers that are gone.
func (a *assigner) release() error {
	a.mu.Lock()
	var gone []fence.Token
	for id := range a.workers {
		if _, there := a.view.members[id]; !there {
			gone = append(gone, id)
		}
	}
	cancelled := asSet(a.view.cancel)
	a.mu.Unlock()
	for _, id := range gone {
		if err := a.releaseOne(id, cancelled); err != nil {
			return err
		}
	}
	return nil
}

func (a *assigner) releaseOne(worker fence.Token, cancelled map[string]bool) error {
	names, err := a.q.docs.Names(a.ctx, a.q.layout.assigned(worker))
	if err != nil {
		return err
	}
	var ids []ID
	for _, name := range names {
		if id, _, ok := parseAssignment(name); ok {
			ids = append(ids, id)
		}
	}
	now := a.q.now()
	err = a.steps(ids, chunk, func(r record) []documents.Write {
		switch {
		case r.Worker != worker || r.State != Assigned && r.State != Running:
			return nil
		case cancelled[string(r.ID)]:
			return a.q.cancelNow(r, now)
		}
		return a.q.giveBack(r, true, now)
	}, func(moved []ID, _ bool) {
		a.log.Warn("a worker is gone; its jobs wait again", "worker", worker.String(), "jobs", len(moved))
	})
	if err != nil {
		return err
	}
	left, err := a.q.docs.Names(a.ctx, a.q.layout.assigned(worker))
	if err != nil || len(left) > 0 {
		return err // the next round tries again
	}
	return a.forgetWorker(worker)
}

// forgetWorker deletes what says that a worker may have assignments.
func (a *assigner) forgetWorker(id fence.Token) error {
	docs, err := a.q.docs.Get(a.ctx, a.q.worker(id), a.q.draining()+"/"+id.String())
	if err != nil {
		return err
	}
	var writes []documents.Write
	for _, d := range docs {
		if d.Exists() {
			writes = append(writes, documents.Delete(d))
		}
	}
	if _, err := a.q.docs.Change(a.ctx, documents.Change{While: []fence.Claim{a.claim}, Writes: writes}); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.workers[id].stop()
	delete(a.workers, id)
	return nil
}

// cancelAsked cancels jobs that wait, and drops requests to cancel jobs that have ended. Workers
// cancel what they run.
func (a *assigner) cancelAsked() error {
	a.mu.Lock()
	names := slices.Clone(a.view.cancel)
	a.mu.Unlock()
	for _, name := range names {
		id, err := ParseID(name)
		if err != nil {
			continue
		}
		docs, err := a.q.docs.Get(a.ctx, a.q.cancelOf(id), a.q.status(id))
		if err != nil {
			return err
		}
		r, err := parse(docs[1])
		if !docs[0].Exists() || err == nil && (r.State == Assigned || r.State == Running) {
			continue
		}
		writes := []documents.Write{documents.Delete(docs[0])}
		if err == nil && r.State == Waiting {
			writes = append(writes, a.q.cancelNow(r, a.q.now())...)
		}
		_, err = a.q.docs.Change(a.ctx, documents.Change{While: []fence.Claim{a.claim}, Writes: writes})
		if err != nil && !errors.Is(err, documents.ErrConflict) {
			return err
		}
	}
	return nil
}

// refresh reads the assignments of workers whose watch has not shown what was assigned a while ago. A
// job that was quick has ended in between, and the watch has merged both changes.
func (a *assigner) refresh() error {
	a.mu.Lock()
	var late []fence.Token
	for id, w := range a.workers {
		for _, since := range w.pending {
			if time.Since(since) >= unseen {
				late = append(late, id)
				break
			}
		}
	}
	for name, since := range a.assigned {
		if time.Since(since) > settle {
			delete(a.assigned, name)
		}
	}
	a.mu.Unlock()
	for _, id := range late {
		names, err := a.q.docs.Names(a.ctx, a.q.layout.assigned(id))
		if err != nil {
			return err
		}
		a.mu.Lock()
		a.workers[id].prune(asSet(names))
		a.mu.Unlock()
	}
	return nil
}

// prune takes over a reading that began after all that is pending was assigned: what it does not show
// has ended. What it does show stays pending until the watch, which may lag behind, has got there.
func (w *worker) prune(there map[string]bool) {
	for name := range w.pending {
		if there[name] {
			w.pending[name] = time.Now()
		} else {
			delete(w.pending, name)
		}
	}
}

// sweep forgets what nobody needs any more.
func (a *assigner) sweep() error {
	if err := a.sweepDraining(); err != nil {
		return err
	}
	return a.sweepFinished()
}

// sweepDraining forgets that workers stop which have gone before anything was assigned to them.
func (a *assigner) sweepDraining() error {
	a.mu.Lock()
	var writes []documents.Write
	for _, name := range a.view.draining {
		id, err := fence.ParseToken(name)
		_, member := a.view.members[id]
		if err == nil && !member && a.workers[id] == nil && len(writes) < documents.MaxWrites {
			writes = append(writes, documents.Remove(a.q.draining()+"/"+name))
		}
	}
	a.mu.Unlock()
	if len(writes) == 0 {
		return nil
	}
	_, err := a.q.docs.Change(a.ctx, documents.Change{While: []fence.Claim{a.claim}, Writes: writes})
	if errors.Is(err, documents.ErrConflict) {
		return nil // somebody else has; the watch will show it
	}
	return err
}

// sweepFinished forgets finished jobs whose time is over.
func (a *assigner) sweepFinished() error {
	names, err := a.q.docs.Names(a.ctx, a.q.finished())
	if err != nil {
		return err
	}
	now := a.q.now()
	var ids []ID
	for _, name := range names { // sorted by time
		id, expires, ok := parseEntry(name)
		if ok && expires.After(now) {
			break
		}
		if ok {
			ids = append(ids, id)
		}
	}
	return a.steps(ids, chunk, func(r record) []documents.Write {
		if !r.State.Finished() || r.Expires.After(now) || !a.forgetElection(r) {
			return nil
		}
		return a.q.forget(r)
	}, func(moved []ID, _ bool) { a.log.Debug("finished jobs are forgotten", "jobs", len(moved)) })
}

func asSet(names []string) map[string]bool {
	set := map[string]bool{}
	for _, n := range names {
		set[n] = true
	}
	return set
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
