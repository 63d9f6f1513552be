package worker

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/ringfence/ringfence/documents"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/lab"
	"github.com/ringfence/ringfence/lab/flaw"
	"github.com/ringfence/ringfence/lab/history"
)

// jobStore records each step of a job's life, and has failpoints before and after assignments.
type jobStore struct {
	documents.Store
	b *jobWorker
}

// step is one job's part in a change.
type jobStep struct {
	status jobs.Status // after it
	write  int         // of its status in the change
	event  history.Event
}

// Change implements documents.Store.
func (s jobStore) Change(ctx context.Context, c documents.Change) ([]int64, error) {
	return s.b.change(c, func() ([]int64, error) {
		if s.b.w.c.Flaw == flaw.InParts && assigns(c) {
			return s.b.inParts(ctx, s.Store, c)
		}
		return s.Store.Change(ctx, c)
	})
}

// change makes a change and records what it does to jobs.
func (b *jobWorker) change(c documents.Change, do func() ([]int64, error)) ([]int64, error) {
	steps := b.steps(c)
	if len(steps) == 0 {
		return do()
	}
	what, nth := kindOf(c, steps), 0
	if what != "" {
		b.mu.Lock()
		b.changes[what]++
		nth = b.changes[what]
		b.mu.Unlock()
	}
	for _, s := range steps {
		b.w.emit(s.event)
	}
	b.reach("before "+what, nth)
	versions, err := do()
	if err == nil {
		b.reach("after "+what, nth)
	}
	r := changed(err)
	for _, s := range steps {
		e := s.event
		e.Kind, e.Outcome, e.Text = history.Return, r.outcome, r.text()
		if e.Text == "" {
			e.Text = s.event.Text
		}
		b.w.emit(e)
		if err == nil && s.status.State == jobs.Running {
			b.mu.Lock()
			b.running[s.status.ID] = publishedStatus{s.status, versions[s.write]}
			b.mu.Unlock()
		}
	}
	return versions, err
}

// steps returns the steps of jobs in a change.
func (b *jobWorker) steps(c documents.Change) (all []jobStep) {
	for i, w := range c.Writes {
		if w.Kind != documents.KindPut || !strings.HasPrefix(w.Path, jobFolder("statuses")) {
			continue
		}
		var s jobs.Status
		if json.Unmarshal(w.Data, &s) != nil {
			continue
		}
		e := history.Event{
			Kind: history.Invoke, Do: history.Change, Process: b.w.c.Name + "/jobs",
			Op: b.w.op("j"), Key: string(s.ID), Attempt: s.Attempt, State: history.State(s.State),
			Version: w.Version, Text: s.WorkerName, Resource: s.Resource,
		}
		if len(c.While) > 0 && c.While[0].Resource == s.Resource {
			e.Token = c.While[0].Token
		}
		all = append(all, jobStep{s, i, e})
	}
	return all
}

// kindOf returns whether a change assigns jobs or takes jobs back of a worker that is gone; "" if
// neither.
func kindOf(c documents.Change, steps []jobStep) string {
	switch {
	case assigns(c):
		return assigning
	case len(c.While) > 0 && c.While[0].Resource == lab.Assigner && steps[0].status.State == jobs.Waiting:
		return takingBack
	}
	return ""
}

// jobFolder returns a folder of the lab's jobs (package jobs), with the slash behind it.
func jobFolder(name string) string { return "jobs/" + lab.JobGroup + "/" + name + "/" }

// assigns reports whether a change assigns jobs.
func assigns(c documents.Change) bool {
	for _, w := range c.Writes {
		if w.Kind == documents.KindPut && strings.HasPrefix(w.Path, jobFolder("assigned")) {
			return true
		}
	}
	return false
}

// reach ends the process if the failpoint is here.
func (b *jobWorker) reach(place string, nth int) {
	if place == b.place && nth == b.nth {
		b.w.note("%s%s", history.Failpoint, place)
		b.w.exit(ExitKilled)
	}
}

// changed is the result of a change of documents, whose errors say what is known.
func changed(err error) result {
	var r *fence.Refusal
	switch {
	case err == nil:
		return acknowledged
	case errors.Is(err, documents.ErrUnknown):
		return result{outcome: history.Unknown, err: err}
	case errors.As(err, &r):
		return result{outcome: history.Refused, err: err}
	}
	return result{outcome: history.Failed, err: err}
}

// inParts is the flaw: what a change deletes is one change, and what it writes is the next one.
func (b *jobWorker) inParts(
	ctx context.Context, docs documents.Store, c documents.Change,
) ([]int64, error) {
	first, second := documents.Change{While: c.While}, documents.Change{While: c.While}
	for _, w := range c.Writes {
		if w.Kind == documents.KindDelete {
			first.Writes = append(first.Writes, w)
		} else {
			second.Writes = append(second.Writes, w)
		}
	}
	if _, err := docs.Change(ctx, first); err != nil {
		return nil, err
	}
	b.mu.Lock()
	nth := b.changes[assigning]
	b.mu.Unlock()
	b.reach("after "+assigning, nth) // in the middle
	if _, err := docs.Change(ctx, second); err != nil {
		return nil, err
	}
	return make([]int64, len(c.Writes)), nil // assignments need no versions
}
