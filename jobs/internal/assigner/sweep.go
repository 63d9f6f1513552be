package assigner

import (
	"context"
	"errors"
	"maps"
	"path"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/jobs/internal/records"
	"github.com/ringfence/ringfence/jobs/job"
)

// keepSweeping sweeps now and then, beside the assigning.
func (a *assigner) keepSweeping() error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-a.ctx.Done():
			return context.Cause(a.ctx)
		}
		if err := a.sweep(); err != nil && a.ctx.Err() == nil && !records.Again(err) {
			return err
		}
	}
}

// sweep forgets what nobody needs any more. It also finds workers that were noted without this
// assigner hearing of it, and that have left since.
func (a *assigner) sweep() error {
	if err := a.trackListed(); err != nil {
		return err
	}
	if err := a.sweepDraining(); err != nil {
		return err
	}
	if err := a.sweepPeeks(); err != nil {
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
			writes = append(writes, documents.DeleteAny(a.q.Paths.Draining()+"/"+name))
		}
	}
	a.mu.Unlock()
	if len(writes) == 0 {
		return nil
	}
	_, err := a.q.Docs.Change(a.ctx, documents.Change{While: []fence.Claim{a.claim}, Writes: writes})
	if errors.Is(err, documents.ErrConflict) {
		return nil // somebody else has; the watch will show it
	}
	return err
}

// sweepFinished forgets finished jobs whose time is over, or of which there are too many.
func (a *assigner) sweepFinished() error {
	names, err := a.q.Docs.Names(a.ctx, a.q.Paths.Finished())
	if err != nil {
		return err
	}
	ids, entries := expired(names, job.MaxFinished, job.MaxFinishedBytes, a.q.Now())
	return a.steps(ids, forgetChunk, func(r records.Record) []documents.Write {
		if !r.State.Finished() || path.Base(a.q.Paths.Expiry(r.Status)) != entries[r.ID] {
			return nil // it was tried again meanwhile
		}
		return a.q.Changes.Forget(r, a.q.Now())
	}, func(moved []job.ID, _ bool) { a.log.Debug("finished jobs are forgotten", "jobs", len(moved)) })
}

// expired returns the jobs whose entries, sorted by time, are before now, and the first ones of
// those that are more than most, or have more bytes together. Those that are not done have half of
// both.
func expired(
	names []string, most, maxBytes int, now time.Time,
) (ids []job.ID, entries map[job.ID]string) {
	entries = map[job.ID]string{}
	all, others := room{most, maxBytes}, room{most / 2, maxBytes / 2}
	count := func(e records.Expiry, jobs, bytes int) {
		all.add(jobs, bytes)
		if e.State != job.Done {
			others.add(jobs, bytes)
		}
	}
	for _, name := range names {
		e, _ := records.ParseExpiry(name) // what cannot be read takes room, too
		count(e, -1, -e.Bytes)
	}
	forget := func(which func(job.State) bool, limit *room) {
		for _, name := range names {
			e, ok := records.ParseExpiry(name)
			if ok && which(e.State) && entries[e.ID] == "" && (!e.Expires.After(now) || limit.short()) {
				ids, entries[e.ID] = append(ids, e.ID), name
				count(e, 1, e.Bytes)
			}
		}
	}
	// first: that makes room for the others
	forget(func(s job.State) bool { return s != job.Done }, &others)
	forget(job.State.Finished, &all)
	return ids, entries
}

// room is what is left of a limit.
type room struct{ jobs, bytes int }

func (r *room) add(jobs, bytes int) { r.jobs, r.bytes = r.jobs+jobs, r.bytes+bytes }

func (r *room) short() bool { return r.jobs < 0 || r.bytes < 0 }

// peekLeft is after how long a peek was left behind.
const peekLeft = time.Minute

// sweepPeeks deletes peeks that were left behind.
func (a *assigner) sweepPeeks() error {
	names, err := a.q.Docs.Names(a.ctx, a.q.Paths.Peeks())
	if err != nil {
		return err
	}
	there := records.Set(names)
	maps.DeleteFunc(a.peeks, func(name string, _ time.Time) bool { return !there[name] })
	for _, name := range names {
		switch since, seen := a.peeks[name]; {
		case !seen:
			a.peeks[name] = time.Now()
		case time.Since(since) >= peekLeft:
			a.q.EndPeek(a.ctx, a.q.Paths.Peeks()+"/"+name)
		}
	}
	return nil
}
