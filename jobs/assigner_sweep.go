package jobs

import (
	"context"
	"errors"
	"path"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
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
		if err := a.sweep(); err != nil && a.ctx.Err() == nil && !again(err) {
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
			writes = append(writes, documents.DeleteAny(a.q.paths.draining()+"/"+name))
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

// sweepFinished forgets finished jobs whose time is over, or of which there are too many.
func (a *assigner) sweepFinished() error {
	names, err := a.q.docs.Names(a.ctx, a.q.paths.finished())
	if err != nil {
		return err
	}
	ids, entries := expired(names, MaxFinished, MaxFinishedBytes, a.q.now())
	return a.steps(ids, forgetChunk, func(r record) []documents.Write {
		if !r.State.Finished() || path.Base(a.q.paths.expiry(r.Status)) != entries[r.ID] {
			return nil // it was tried again meanwhile
		}
		return a.q.changes.forget(r, a.q.now())
	}, func(moved []ID, _ bool) { a.log.Debug("finished jobs are forgotten", "jobs", len(moved)) })
}

// expired returns the jobs whose entries, sorted by time, are before now, and the first ones of
// those that are more than most, or have more bytes together. Those that are not done have half of
// both.
func expired(names []string, most, maxBytes int, now time.Time) (ids []ID, entries map[ID]string) {
	entries = map[ID]string{}
	all, others := room{most, maxBytes}, room{most / 2, maxBytes / 2}
	count := func(e expiry, jobs, bytes int) {
		all.add(jobs, bytes)
		if e.state != Done {
			others.add(jobs, bytes)
		}
	}
	for _, name := range names {
		e, _ := parseExpiry(name) // what cannot be read takes room, too
		count(e, -1, -e.bytes)
	}
	forget := func(which func(State) bool, limit *room) {
		for _, name := range names {
			e, ok := parseExpiry(name)
			if ok && which(e.state) && entries[e.id] == "" && (!e.expires.After(now) || limit.short()) {
				ids, entries[e.id] = append(ids, e.id), name
				count(e, 1, e.bytes)
			}
		}
	}
	forget(func(s State) bool { return s != Done }, &others) // first: that makes room for the others
	forget(State.Finished, &all)
	return ids, entries
}

// room is what is left of a limit.
type room struct{ jobs, bytes int }

func (r *room) add(jobs, bytes int) { r.jobs, r.bytes = r.jobs+jobs, r.bytes+bytes }

func (r *room) short() bool { return r.jobs < 0 || r.bytes < 0 }
