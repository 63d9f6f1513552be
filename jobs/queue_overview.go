package jobs

import (
	"cmp"
	"context"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/ringfence/ringfence/fence"
)

// Overview is how a group is doing. Its parts are read one after the other, so a job that moves
// meanwhile may be in two of them, or in none.
type Overview struct {
	Workers []WorkerStatus // the one who has been there longest first
	Counts  map[State]int  // of every job whose status is kept
	Active  []Status       // all that are assigned or running, the oldest first
	Waiting []Status       // the next ones, in the order in which they are assigned
	Failed  []Status       // the last ones that have failed, the latest first
	Ended   []Status       // the last ones that are done or were cancelled, the latest first
}

// WorkerStatus is what the group knows of a worker.
type WorkerStatus struct {
	ID       fence.Token `json:"id"` // as a member of the group
	Name     string      `json:"name"`
	Capacity int         `json:"capacity"`
	Labels   []string    `json:"labels"`
	Kinds    []string    `json:"kinds"`    // of jobs that it runs
	Jobs     int         `json:"jobs"`     // how many it has
	Assigns  bool        `json:"assigns"`  // the group has elected it
	Stopping bool        `json:"stopping"` // it takes no more jobs
}

// ending is how a job has ended.
type ending struct {
	id    ID
	state State
	at    time.Time
}

// Overview reads how the group is doing, with at most limit of the waiting jobs, and as many of
// those that have failed and of those that have ended otherwise. A Queue remembers how jobs have
// ended, so a further overview costs one list for each folder and worker, and the jobs that are
// shown. Its errors are those of the coordinator.
func (q *Queue) Overview(ctx context.Context, limit int) (o Overview, err error) {
	o.Counts = map[State]int{}
	if o.Workers, err = q.Workers(ctx); err != nil {
		return o, err
	}
	if o.Waiting, o.Counts[Waiting], err = q.nextWaiting(ctx, limit); err != nil {
		return o, err
	}
	if o.Active, err = q.active(ctx); err != nil {
		return o, err
	}
	for _, a := range o.Active {
		o.Counts[a.State]++
		for i := range o.Workers {
			if o.Workers[i].ID == a.Worker {
				o.Workers[i].Jobs++
			}
		}
	}
	ended, err := q.ended(ctx)
	if err != nil {
		return o, err
	}
	for _, e := range ended {
		o.Counts[e.state]++
	}
	failed := func(s State) bool { return s == Failed }
	if o.Failed, err = q.lastEnded(ctx, ended, limit, failed); err != nil {
		return o, err
	}
	o.Ended, err = q.lastEnded(ctx, ended, limit, func(s State) bool {
		return s.Finished() && !failed(s)
	})
	return o, err
}

// Workers returns the workers, the one who has been there longest first. It does not count their
// jobs; Overview does.
func (q *Queue) Workers(ctx context.Context) ([]WorkerStatus, error) {
	members, err := q.group.Members(ctx)
	if err == nil {
		err = q.offered(ctx, members, map[string][]byte{})
	}
	if err != nil {
		return nil, err
	}
	assigns, err := q.at.Candidates(ctx, q.Leader())
	if err != nil {
		return nil, err
	}
	stopping, err := q.docs.Names(ctx, q.paths.draining())
	if err != nil {
		return nil, err
	}
	all := make([]WorkerStatus, 0, len(members))
	for _, m := range members {
		o := parseOffer(m)
		all = append(all, WorkerStatus{
			ID: m.ID, Name: m.Name, Capacity: o.Capacity,
			Labels: append([]string{}, o.Labels...), Kinds: append([]string{}, o.Kinds...),
			Assigns:  len(assigns) > 0 && assigns[0].Holder == m.Name,
			Stopping: slices.Contains(stopping, m.ID.String()),
		})
	}
	return all, nil
}

// nextWaiting returns the first waiting jobs, and how many there are.
func (q *Queue) nextWaiting(ctx context.Context, limit int) (first []Status, count int, err error) {
	names, err := q.docs.Names(ctx, q.paths.waiting())
	if err != nil {
		return nil, 0, err
	}
	var ids []ID
	for _, name := range names[:min(len(names), limit)] {
		if id, _, _, ok := parseEntry(name); ok {
			ids = append(ids, id)
		}
	}
	first, err = q.statusesIn(ctx, ids, func(s State) bool { return s == Waiting })
	return first, len(names), err
}

// active returns the jobs that are assigned or running, also those of workers that are gone.
func (q *Queue) active(ctx context.Context) ([]Status, error) {
	workers, err := q.docs.Names(ctx, q.paths.workers())
	if err != nil {
		return nil, err
	}
	var ids []ID
	for _, w := range workers {
		token, err := fence.ParseToken(w)
		if err != nil {
			continue
		}
		names, err := q.docs.Names(ctx, q.paths.assigned(token))
		if err != nil {
			return nil, err
		}
		ids = append(ids, assignedIn(names)...)
	}
	slices.Sort(ids) // an ID begins with its time
	return q.statusesIn(ctx, slices.Compact(ids), func(s State) bool {
		return s == Assigned || s == Running
	})
}

// ended returns how the finished jobs have ended, by the name of the entry, which is another one
// after each end. It reads those that it has not read before.
func (q *Queue) ended(ctx context.Context) (map[string]ending, error) {
	names, err := q.docs.Names(ctx, q.paths.finished())
	if err != nil {
		return nil, err
	}
	var before map[string]ending
	if last := q.endings.Load(); last != nil {
		before = *last
	}
	all, unknown := map[string]ending{}, map[ID]string{}
	var ids []ID
	for _, name := range names {
		if e, known := before[name]; known {
			all[name] = e
		} else if e, ok := parseExpiry(name); ok {
			unknown[e.id] = name
			ids = append(ids, e.id)
		}
	}
	statuses, err := q.statusesIn(ctx, ids, State.Finished)
	for _, s := range statuses {
		if name := unknown[s.ID]; name == path.Base(q.paths.expiry(s)) {
			all[name] = ending{s.ID, s.State, s.Ended}
		}
	}
	q.endings.Store(&all)
	return all, err
}

// lastEnded returns the jobs that have ended last, in one of these states.
func (q *Queue) lastEnded(
	ctx context.Context, ended map[string]ending, limit int, in func(State) bool,
) ([]Status, error) {
	all := slices.SortedFunc(maps.Values(ended), func(a, b ending) int {
		return cmp.Or(b.at.Compare(a.at), cmp.Compare(b.id, a.id))
	})
	all = slices.DeleteFunc(all, func(e ending) bool { return !in(e.state) })
	var ids []ID
	for _, e := range all[:min(len(all), limit)] {
		ids = append(ids, e.id)
	}
	return q.statusesIn(ctx, ids, in)
}

// statusesIn reads the statuses of jobs, in their order, and leaves out what is forgotten, cannot
// be read, or is in another state.
func (q *Queue) statusesIn(ctx context.Context, ids []ID, in func(State) bool) ([]Status, error) {
	all := make([]Status, 0, len(ids))
	for some := range slices.Chunk(ids, listPage) {
		docs, err := q.statuses(ctx, some)
		if err != nil {
			return all, err
		}
		for _, d := range docs {
			if r, err := parse(d); err == nil && in(r.State) {
				all = append(all, r.Status)
			}
		}
	}
	return all, nil
}

// Accepts reports whether a worker runs jobs of a kind, and has these labels.
func (w WorkerStatus) Accepts(kind string, labels []string) bool {
	return offer{Labels: w.Labels, Kinds: w.Kinds}.accepts(kind, labels)
}
