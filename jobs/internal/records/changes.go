package records

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/jobs/job"
	"github.com/ringfence/ringfence/jobs/schedule"
)

// Every step of a job's life is one change of documents, made as a whole. It replaces the status
// that its author has read, so of two steps from the same status one is a conflict. The other
// documents say where a job stands, for those who look for work.

// Record is a status with its document.
type Record struct {
	job.Status
	Doc        documents.Document
	AnswerLost bool // it was read after a change of the same step whose answer was lost
}

// Parse reads a status.
func Parse(d documents.Document) (Record, error) {
	r := Record{Doc: d}
	if !d.Exists() {
		return r, job.ErrNotFound
	}
	if err := json.Unmarshal(d.Data, &r.Status); err != nil {
		return r, fmt.Errorf("%s is no status of a job: %w", d.Path, err)
	}
	return r, nil
}

// become replaces the status.
func (r Record) become(s job.Status) documents.Write { return documents.Replace(r.Doc, Encode(s)) }

func Encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil { // only a RawMessage can fail, and each was checked when it came in
		panic(err)
	}
	return b
}

// Changes makes the writes of each step.
type Changes struct{ paths Paths }

// Submit is the first step.
func (c Changes) Submit(id job.ID, spec job.Spec, now time.Time) []documents.Write {
	submitted := Encode(spec)
	s := job.Status{
		ID: id, Kind: spec.Kind, Title: spec.Title, Resource: spec.Resource, State: job.Waiting,
		Priority: spec.Priority,
		Labels:   spec.Labels, Unique: spec.Unique, CleanUp: spec.CleanUp, Keep: spec.Keep,
		Bytes: len(submitted),
		Every: spec.Every, Submitted: now, Due: spec.FirstDue(now),
	}
	writes := []documents.Write{
		documents.Create(c.paths.Status(id), Encode(s)),
		documents.Create(c.paths.spec(id), submitted),
		documents.Create(c.paths.Entry(s), nil),
	}
	if spec.Unique != "" {
		writes = append(writes, documents.Create(c.paths.unique(spec.Unique), []byte(id)))
	}
	return writes
}

// Assign hands a waiting job to a worker, as s, which may have a numbered resource that the job had
// not.
func (c Changes) Assign(
	r Record, s job.Status, worker fence.Token, name string,
) (assigned job.Status, writes []documents.Write) {
	s.State, s.Worker, s.WorkerName = job.Assigned, worker, name
	s.Attempt++
	writes = []documents.Write{
		r.become(s), documents.DeleteAny(c.paths.Entry(r.Status)),
		documents.Create(c.paths.Assignment(s), nil),
	}
	if s.Number != r.Number {
		writes = append(writes, documents.Create(c.paths.resource(s.Number), []byte(s.ID)))
	}
	return s, writes
}

// Start says that a worker leads the job's resource.
func (c Changes) Start(r Record, token fence.Token, now time.Time) []documents.Write {
	s := r.Status
	s.State, s.Token, s.Started = job.Running, token, now
	if s.Every != "" && s.RoundToken == 0 {
		s.RoundToken = token
	}
	return []documents.Write{r.become(s)}
}

// TakeBack makes a job wait again whose worker is gone. It keeps its place among those that wait.
func (c Changes) TakeBack(r Record, now time.Time) []documents.Write {
	s := r.Status
	s.Lost++
	s.Error = fmt.Sprintf("worker %s (%s) was gone before it had finished", r.Worker, r.WorkerName)
	tried(&s, r.Status, job.OutcomeLost, s.Error, now)
	if s.Lost > job.MaxLost {
		return c.end(r, s, job.Failed, now)
	}
	return c.wait(r, s, r.Due)
}

// GiveBack makes a job wait again that its worker does not run to its end. It keeps its place among
// those that wait, unless it could not begin, as why says: then it may hold up others.
func (c Changes) GiveBack(r Record, why error, now time.Time) []documents.Write {
	s := r.Status
	s.ReturnedBy, s.Returned = r.Worker, now
	due, note := r.Due, ""
	if why != nil {
		due = schedule.Later(now, r.Due)
		s.Error = shorten(fmt.Sprintf("worker %s (%s) could not begin: %v", r.Worker, r.WorkerName, why))
		note = s.Error
	}
	tried(&s, r.Status, job.OutcomeReturned, note, now)
	return c.wait(r, s, due)
}

// wait makes an assigned job wait, as s, until a time.
func (c Changes) wait(r Record, s job.Status, due time.Time) []documents.Write {
	s.State, s.Worker, s.WorkerName, s.Due = job.Waiting, 0, "", due
	return []documents.Write{
		r.become(s), documents.DeleteAny(c.paths.Assignment(r.Status)),
		documents.Create(c.paths.Entry(s), nil),
	}
}

// End is how a try has ended.
type End struct {
	Result json.RawMessage
	Note   string // why there is no result
	Err    error  // nil: done
	Final  bool   // no further try
}

// Finish ends a try of an assigned job: the job is done, waits for another try or for its next
// round, or has failed.
func (c Changes) Finish(r Record, spec job.Spec, o End, now time.Time) []documents.Write {
	s := r.Status
	state, how := job.Done, job.OutcomeDone
	s.Error, s.Result = o.Note, o.Result
	if o.Err != nil {
		state, how = job.Failed, job.OutcomeFailed
		s.Failures++
		s.Error = alsoSay(shorten(o.Err.Error()), o.Note)
	}
	tried(&s, r.Status, how, s.Error, now)
	if o.Err != nil && s.Failures <= spec.Retries && !o.Final {
		return c.wait(r, s, schedule.Later(now.Add(pauseAfter(spec, s.Failures)), r.Due))
	}
	again, err := schedule.Parse(spec.Every)
	if err != nil { // it was good where it came in; this machine does not know its time zone
		s.Error = shorten(alsoSay("it does not start again: "+err.Error(), s.Error))
		return c.end(r, s, job.Failed, now)
	}
	if due, repeats := again.Next(spec.FirstDue(r.Submitted), schedule.Later(now, r.Due)); repeats {
		s.Rounds++
		s.Failures, s.Lost, s.RoundToken, s.Ended = 0, 0, 0, now
		return c.wait(r, s, due)
	}
	return c.end(r, s, state, now)
}

// CancelNow ends a job because somebody has cancelled it.
func (c Changes) CancelNow(r Record, now time.Time) []documents.Write {
	s := r.Status
	if r.State != job.Waiting {
		tried(&s, r.Status, job.OutcomeCancelled, "", now)
	}
	return c.end(r, s, job.Cancelled, now)
}

// end ends a job as s, in this state.
func (c Changes) end(r Record, s job.Status, state job.State, now time.Time) []documents.Write {
	s.State, s.Paused, s.Ended = state, false, now
	s.Expires = now.Add(keep(s))
	s.Kept = s.Bytes + len(s.Result) + len(Encode(s.History))
	if state == job.Done { // any other may be tried again by hand, and keeps its resource
		s.Number = 0
	}
	writes := []documents.Write{r.become(s), documents.Create(c.paths.Expiry(s), nil)}
	if s.Number != r.Number {
		writes = append(writes, documents.DeleteAny(c.paths.resource(r.Number)))
	}
	switch r.State {
	case job.Waiting:
		writes = append(writes, documents.DeleteAny(c.paths.Entry(r.Status)))
	case job.Assigned, job.Running:
		writes = append(writes, documents.DeleteAny(c.paths.Assignment(r.Status)))
	}
	if r.Unique != "" {
		writes = append(writes, documents.DeleteAny(c.paths.unique(r.Unique)))
	}
	return writes
}

// Retry makes a job that has failed or was cancelled wait again.
func (c Changes) Retry(r Record, now time.Time) []documents.Write {
	s := r.Status
	s.State, s.Worker, s.WorkerName, s.Due = job.Waiting, 0, "", now
	s.Failures, s.Lost, s.Expires = 0, 0, time.Time{}
	writes := []documents.Write{
		r.become(s), documents.DeleteAny(c.paths.Expiry(r.Status)),
		documents.Create(c.paths.Entry(s), nil),
	}
	if r.Unique != "" {
		writes = append(writes, documents.Create(c.paths.unique(r.Unique), []byte(r.ID)))
	}
	return writes
}

// Move has a waiting job wait as s, at another place of those that wait.
func (c Changes) Move(r Record, s job.Status) []documents.Write {
	writes := []documents.Write{r.become(s)}
	if from, to := c.paths.Entry(r.Status), c.paths.Entry(s); r.State == job.Waiting && from != to {
		writes = append(writes, documents.DeleteAny(from), documents.Create(to, nil))
	}
	return writes
}

// Forget deletes what is left of a finished job. If it has led a resource and wants a clean-up,
// that is submitted in the same change: from then on nobody can try the job again.
func (c Changes) Forget(r Record, now time.Time) []documents.Write {
	writes := []documents.Write{
		documents.Delete(r.Doc), documents.DeleteAny(c.paths.spec(r.ID)),
		documents.DeleteAny(c.paths.Expiry(r.Status)),
	}
	if r.Number != 0 {
		writes = append(writes, documents.DeleteAny(c.paths.resource(r.Number)))
	}
	if r.CleanUp != "" && r.Resource != "" {
		writes = append(writes, c.Submit(NewID(now), cleanUp(r.Status), now)...)
	}
	return writes
}

// cleanUp is the job that cleans up after a forgotten one.
func cleanUp(s job.Status) job.Spec {
	s.Result, s.History = nil, nil // may be too large
	return job.Spec{
		Kind: s.CleanUp, Payload: Encode(s), Resource: s.Resource, Labels: s.Labels,
		Retries: job.MaxRetries,
	}
}

// shorten cuts a text that is too long for a status.
func shorten(text string) string { return shortenTo(text, job.MaxError) }

func shortenTo(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return text[:most-len("…")] + "…"
}
