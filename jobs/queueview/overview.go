package queueview

import (
	"cmp"
	"context"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/jobs/internal/records"
	"github.com/ringfence/ringfence/jobs/job"
)

// Overview is how a group is doing. Its parts are read one after the other, so a job that moves
// meanwhile may be in two of them, or in none.
type Overview struct {
	Workers []Worker          // the one who has been there longest first
	Counts  map[job.State]int // of every job whose status is kept
	Active  []job.Status      // all that are assigned or running, the oldest first
	Waiting []job.Status      // the next ones, in the order in which they are assigned
	Failed  []job.Status      // the last ones that have failed, the latest first
	Ended   []job.Status      // the last ones that are done or were cancelled, the latest first
}

// Worker is what the group knows of a worker.
type Worker struct {
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
	id    job.ID
	state job.State
	at    time.Time
}

// Overview reads how the group is doing, with at most limit of the waiting jobs, and as many of
// those that have failed and of those that have ended otherwise. A Queue remembers how jobs have
// ended, so a further overview costs one list for each folder and worker, and the jobs that are
// shown. Its errors are those of the coordinator.
func (v *View) Overview(ctx context.Context, limit int) (o Overview, err error) {
	o.Counts = map[job.State]int{}
	if o.Workers, err = v.Workers(ctx); err != nil {
		return o, err
	}
	if o.Waiting, o.Counts[job.Waiting], err = v.nextWaiting(ctx, limit); err != nil {
		return o, err
	}
	if o.Active, err = v.active(ctx); err != nil {
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
	ended, err := v.ended(ctx)
	if err != nil {
		return o, err
	}
	for _, e := range ended {
		o.Counts[e.state]++
	}
	failed := func(s job.State) bool { return s == job.Failed }
	if o.Failed, err = v.lastEnded(ctx, ended, limit, failed); err != nil {
		return o, err
	}
	o.Ended, err = v.lastEnded(ctx, ended, limit, func(s job.State) bool {
		return s.Finished() && !failed(s)
	})
	return o, err
}

// Workers returns the workers, the one who has been there longest first. It does not count their
// jobs; Overview does.
func (v *View) Workers(ctx context.Context) ([]Worker, error) {
	members, err := v.store.Group.Members(ctx)
	if err == nil {
		err = v.store.Offered(ctx, members, map[string][]byte{})
	}
	if err != nil {
		return nil, err
	}
	assigns, err := v.store.At.Candidates(ctx, v.Leader())
	if err != nil {
		return nil, err
	}
	stopping, err := v.store.Docs.Names(ctx, v.store.Paths.Draining())
	if err != nil {
		return nil, err
	}
	all := make([]Worker, 0, len(members))
	for _, m := range members {
		o := records.ParseOffer(m)
		all = append(all, Worker{
			ID: m.ID, Name: m.Name, Capacity: o.Capacity,
			Labels: append([]string{}, o.Labels...), Kinds: append([]string{}, o.Kinds...),
			Assigns:  len(assigns) > 0 && assigns[0].Holder == m.Name,
			Stopping: slices.Contains(stopping, m.ID.String()),
		})
	}
	return all, nil
}

// nextWaiting returns the first waiting jobs, and how many there are.
func (v *View) nextWaiting(
	ctx context.Context, limit int,
) (first []job.Status, count int, err error) {
	names, err := v.store.Docs.Names(ctx, v.store.Paths.Waiting())
	if err != nil {
		return nil, 0, err
	}
	var ids []job.ID
	for _, name := range names[:min(len(names), limit)] {
		if id, _, _, ok := records.ParseEntry(name); ok {
			ids = append(ids, id)
		}
	}
	first, err = v.store.StatusesIn(ctx, ids, func(s job.State) bool { return s == job.Waiting })
	return first, len(names), err
}

// active returns the jobs that are assigned or running, also those of workers that are gone.
func (v *View) active(ctx context.Context) ([]job.Status, error) {
	workers, err := v.store.Docs.Names(ctx, v.store.Paths.Workers())
	if err != nil {
		return nil, err
	}
	var ids []job.ID
	for _, w := range workers {
		token, err := fence.ParseToken(w)
		if err != nil {
			continue
		}
		names, err := v.store.Docs.Names(ctx, v.store.Paths.Assigned(token))
		if err != nil {
			return nil, err
		}
		ids = append(ids, records.AssignedIn(names)...)
	}
	slices.Sort(ids) // an ID begins with its time
	return v.store.StatusesIn(ctx, slices.Compact(ids), func(s job.State) bool {
		return s == job.Assigned || s == job.Running
	})
}

// ended returns how the finished jobs have ended, by the name of the entry, which is another one
// after each end. It reads those that it has not read before.
func (v *View) ended(ctx context.Context) (map[string]ending, error) {
	names, err := v.store.Docs.Names(ctx, v.store.Paths.Finished())
	if err != nil {
		return nil, err
	}
	var before map[string]ending
	if last := v.endings.Load(); last != nil {
		before = *last
	}
	all, unknown := map[string]ending{}, map[job.ID]string{}
	var ids []job.ID
	for _, name := range names {
		if e, known := before[name]; known {
			all[name] = e
		} else if e, ok := records.ParseExpiry(name); ok {
			unknown[e.ID] = name
			ids = append(ids, e.ID)
		}
	}
	statuses, err := v.store.StatusesIn(ctx, ids, job.State.Finished)
	for _, s := range statuses {
		if name := unknown[s.ID]; name == path.Base(v.store.Paths.Expiry(s)) {
			all[name] = ending{s.ID, s.State, s.Ended}
		}
	}
	v.endings.Store(&all)
	return all, err
}

// lastEnded returns the jobs that have ended last, in one of these states.
func (v *View) lastEnded(
	ctx context.Context, ended map[string]ending, limit int, in func(job.State) bool,
) ([]job.Status, error) {
	all := slices.SortedFunc(maps.Values(ended), func(a, b ending) int {
		return cmp.Or(b.at.Compare(a.at), cmp.Compare(b.id, a.id))
	})
	all = slices.DeleteFunc(all, func(e ending) bool { return !in(e.state) })
	var ids []job.ID
	for _, e := range all[:min(len(all), limit)] {
		ids = append(ids, e.id)
	}
	return v.store.StatusesIn(ctx, ids, in)
}

// Accepts reports whether a worker runs jobs of a kind, and has these labels.
func (w Worker) Accepts(kind string, labels []string) bool {
	return records.Offer{Labels: w.Labels, Kinds: w.Kinds}.Accepts(kind, labels)
}
