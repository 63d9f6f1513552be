package traffic

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/jobs/job"
	"github.com/ringfence/ringfence/lab/system"
)

// blind is how long the flawed cancellation does not look.
const blind = 300 * time.Millisecond

// cancelAnyway is the flaw of a cancellation that looks at a job only before it writes: it makes
// the job cancelled, whatever it has become meanwhile.
func (c *client) cancelAnyway(ctx context.Context, id job.ID) error {
	was, err := c.queue.Get(ctx, id)
	switch {
	case err != nil:
		return err
	case was.State.Finished():
		return fmt.Errorf("%w: %s is %s", job.ErrWrongState, id, was.State)
	case was.Unique != "":
		return c.queue.Cancel(ctx, id)
	}
	_ = system.Sleep(ctx, blind)
	docs := clientCoordinator{c.at, c}.Documents()
	for ctx.Err() == nil {
		all, err := docs.Get(ctx, documents.At(JobFolder("statuses")+string(id)))
		if err != nil {
			return err
		}
		if _, err = docs.Change(ctx, documents.Change{Writes: overwritten(all[0])}); err == nil {
			return nil
		}
	}
	return context.Cause(ctx)
}

// overwritten returns the writes that make a job cancelled in whatever state it is.
func overwritten(d documents.Document) []documents.Write {
	var s job.Status
	if json.Unmarshal(d.Data, &s) != nil {
		return nil
	}
	var where documents.Write
	switch {
	case s.State == job.Waiting:
		where = documents.DeleteAny(fmt.Sprintf("%s%d.%014d.%d.%s.%d", JobFolder("waiting"),
			job.MaxPriority-s.Priority, s.Due.UnixMilli(), s.Attempt, s.ID, s.Bytes))
	case !s.State.Finished():
		where = documents.DeleteAny(fmt.Sprintf("%s%s/%s.%d", JobFolder("assigned"), s.Worker, s.ID,
			s.Attempt))
	}
	finished := s.State.Finished()
	s.State, s.Ended = job.Cancelled, time.Now()
	if finished {
		data, _ := json.Marshal(s)
		return []documents.Write{documents.Replace(d, data)}
	}
	s.Expires = s.Ended.Add(time.Hour)
	data, _ := json.Marshal(s)
	return []documents.Write{
		documents.Replace(d, data), where,
		documents.Create(fmt.Sprintf("%s%014d.%d.%s", JobFolder("finished"), s.Expires.UnixMilli(),
			s.Kept, s.ID), nil),
	}
}

// repeatRequest is the flaw of a request to cancel a job that outlives the job's end.
func (c *client) repeatRequest(ctx context.Context, id job.ID) {
	_, err := c.at.Documents().Change(ctx, documents.Change{
		Writes: []documents.Write{documents.Create(JobFolder("cancel")+string(id), nil)},
	})
	c.rec.Note(c.name, fmt.Sprintf("an old request to cancel %s: %v", id, err))
}
