package jobs

import (
	"cmp"
	"context"
	"path"
	"slices"
	"time"

	"github.com/ringfence/ringfence/documents"
	"github.com/ringfence/ringfence/fence"
)

// Overview is how a group is doing. Its parts are read one after the other, so a job that moves
// meanwhile may be in two of them, or in none.
type Overview struct {
	Workers []WorkerStatus // the one who has been there longest first
	Counts  map[State]int  // of every job whose status is kept
	Active  []Status       // all that are assigned or running, the oldest first
	Waiting []Status       // the next ones, in the order in which they are assigned
	Ended   []Status       // the last ones, the latest first
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

// Survey reads overviews of a group. It remembers how jobs have ended, so another overview costs one
// list for each folder and worker, and the jobs that are shown. It is for one goroutine.
type Survey struct {
	q     *Queue
	most  int
	ended map[string]ending // by the name of its entry, which is another one after each end
}

// ending is how a job has ended.
type ending struct {
	id    ID
	state State
	at    time.Time
}

// Survey returns a survey whose overviews show at most so many waiting jobs, and so many that have
// ended.
func (q *Queue) Survey(most int) *Survey {
	return &Survey{q: q, most: most, ended: map[string]ending{}}
}

// Read reads an overview. Its errors are those of the coordinator.
func (s *Survey) Read(ctx context.Context) (o Overview, err error) {
	o.Counts = map[State]int{}
	if o.Workers, err = s.q.Workers(ctx); err != nil {
		return o, err
	}
	if o.Waiting, o.Counts[Waiting], err = s.waiting(ctx); err != nil {
		return o, err
	}
	if o.Active, err = s.active(ctx); err != nil {
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
	if o.Ended, err = s.last(ctx); err != nil {
		return o, err
	}
	for _, e := range s.ended {
		o.Counts[e.state]++
	}
	return o, nil
}

// Workers returns the workers, the one who has been there longest first. It does not count their jobs;
// Survey does.
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

// waiting returns the first waiting jobs, and how many there are.
func (s *Survey) waiting(ctx context.Context) (first []Status, count int, err error) {
	names, err := s.q.docs.Names(ctx, s.q.paths.waiting())
	if err != nil {
		return nil, 0, err
	}
	var ids []ID
	for _, name := range names[:min(len(names), s.most)] {
		if id, _, _, ok := parseEntry(name); ok {
			ids = append(ids, id)
		}
	}
	first, err = s.statuses(ctx, ids, func(s State) bool { return s == Waiting })
	return first, len(names), err
}

// active returns the jobs that are assigned or running, also those of workers that are gone.
func (s *Survey) active(ctx context.Context) ([]Status, error) {
	workers, err := s.q.docs.Names(ctx, s.q.paths.workers())
	if err != nil {
		return nil, err
	}
	var ids []ID
	for _, w := range workers {
		token, err := fence.ParseToken(w)
		if err != nil {
			continue
		}
		names, err := s.q.docs.Names(ctx, s.q.paths.assigned(token))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if id, _, ok := parseAssignment(name); ok {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids) // an ID begins with its time
	return s.statuses(ctx, slices.Compact(ids), func(s State) bool { return s == Assigned || s == Running })
}

// last returns the jobs that have ended last.
func (s *Survey) last(ctx context.Context) ([]Status, error) {
	names, err := s.q.docs.Names(ctx, s.q.paths.finished())
	if err != nil {
		return nil, err
	}
	there := asSet(names)
	for name := range s.ended {
		if !there[name] {
			delete(s.ended, name)
		}
	}
	if err := s.remember(ctx, names); err != nil {
		return nil, err
	}
	all := make([]ending, 0, len(s.ended))
	for _, e := range s.ended {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b ending) int { return cmp.Or(b.at.Compare(a.at), cmp.Compare(b.id, a.id)) })
	var ids []ID
	for _, e := range all[:min(len(all), s.most)] {
		ids = append(ids, e.id)
	}
	return s.statuses(ctx, ids, State.Finished)
}

// remember reads how jobs have ended that it does not know yet.
func (s *Survey) remember(ctx context.Context, names []string) error {
	unknown := map[ID]string{}
	var ids []ID
	for _, name := range names {
		if id, _, _, ok := parseExpiry(name); ok && s.ended[name].id == "" {
			unknown[id] = name
			ids = append(ids, id)
		}
	}
	statuses, err := s.statuses(ctx, ids, State.Finished)
	for _, status := range statuses {
		if name := unknown[status.ID]; name == path.Base(s.q.paths.expiry(status)) {
			s.ended[name] = ending{status.ID, status.State, status.Ended}
		}
	}
	return err
}

// statuses reads the statuses of jobs that are still in such a state, in their order.
func (s *Survey) statuses(ctx context.Context, ids []ID, in func(State) bool) ([]Status, error) {
	all := make([]Status, 0, len(ids))
	for some := range slices.Chunk(ids, listPage) {
		paths := make([]string, 0, len(some))
		for _, id := range some {
			paths = append(paths, s.q.paths.status(id))
		}
		read, err := s.q.docs.Get(ctx, documents.At(paths...))
		if err != nil {
			return all, err
		}
		all = append(all, statusesIn(read, in)...)
	}
	return all, nil
}

// statusesIn leaves out what is forgotten, cannot be read, or is in another state.
func statusesIn(read []documents.Document, in func(State) bool) (all []Status) {
	for _, d := range read {
		if r, err := parse(d); err == nil && in(r.State) {
			all = append(all, r.Status)
		}
	}
	return all
}

// Accepts reports whether a worker runs jobs of a kind, and has these labels.
func (w WorkerStatus) Accepts(kind string, labels []string) bool {
	return offer{Labels: w.Labels, Kinds: w.Kinds}.accepts(kind, labels)
}
