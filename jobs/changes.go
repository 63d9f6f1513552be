package jobs

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
)

// Every step of a job's life is one change of documents, made as a whole. It replaces the status
// that its author has read, so of two steps from the same status one is a conflict. The other
// documents say where a job stands, for those who look for work.

// record is a status with its document.
type record struct {
	Status
	doc  documents.Document
	lost bool // it was read after a change of the same step whose answer was lost
}

// errNoJob: there is no status of this ID.
var errNoJob = errors.New("there is no such job")

// parse reads a status.
func parse(d documents.Document) (record, error) {
	r := record{doc: d}
	if !d.Exists() {
		return r, errNoJob
	}
	if err := json.Unmarshal(d.Data, &r.Status); err != nil {
		return r, fmt.Errorf("%s is no status of a job: %w", d.Path, err)
	}
	return r, nil
}

// become replaces the status.
func (r record) become(s Status) documents.Write { return documents.Replace(r.doc, encode(s)) }

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil { // only a RawMessage can fail, and each was checked when it came in
		panic(err)
	}
	return b
}

// changes makes the writes of each step.
type changes struct{ paths paths }

// submit is the first step.
func (c changes) submit(id ID, spec Spec, now time.Time) []documents.Write {
	submitted := encode(spec)
	s := Status{
		ID: id, Kind: spec.Kind, Title: spec.Title, Resource: spec.Resource, State: Waiting,
		Priority: spec.Priority,
		Labels:   spec.Labels, Unique: spec.Unique, CleanUp: spec.CleanUp, Keep: spec.Keep,
		Bytes: len(submitted),
		Every: spec.Every, Submitted: now, Due: spec.first(now),
	}
	writes := []documents.Write{
		documents.Create(c.paths.status(id), encode(s)),
		documents.Create(c.paths.spec(id), submitted),
		documents.Create(c.paths.entry(s), nil),
	}
	if spec.Unique != "" {
		writes = append(writes, documents.Create(c.paths.unique(spec.Unique), []byte(id)))
	}
	return writes
}

// assign hands a waiting job to a worker, as s, which may have a numbered resource that the job had
// not.
func (c changes) assign(
	r record, s Status, worker fence.Token, name string,
) (assigned Status, writes []documents.Write) {
	s.State, s.Worker, s.WorkerName = Assigned, worker, name
	s.Attempt++
	writes = []documents.Write{
		r.become(s), documents.DeleteAny(c.paths.entry(r.Status)),
		documents.Create(c.paths.assignment(s), nil),
	}
	if s.Number != r.Number {
		writes = append(writes, documents.Create(c.paths.resource(s.Number), []byte(s.ID)))
	}
	return s, writes
}

// start says that a worker leads the job's resource.
func (c changes) start(r record, token fence.Token, now time.Time) []documents.Write {
	s := r.Status
	s.State, s.Token, s.Started = Running, token, now
	if s.Every != "" && s.RoundToken == 0 {
		s.RoundToken = token
	}
	return []documents.Write{r.become(s)}
}

// takeBack makes a job wait again whose worker is gone. It keeps its place among those that wait.
func (c changes) takeBack(r record, now time.Time) []documents.Write {
	s := r.Status
	s.Lost++
	s.Error = fmt.Sprintf("worker %s (%s) was gone before it had finished", r.Worker, r.WorkerName)
	s.tried(r.Status, OutcomeLost, s.Error, now)
	if s.Lost > MaxLost {
		return c.end(r, s, Failed, now)
	}
	return c.wait(r, s, r.Due)
}

// giveBack makes a job wait again that its worker does not run to its end. It keeps its place among
// those that wait, unless it could not begin, as why says: then it may hold up others.
func (c changes) giveBack(r record, why error, now time.Time) []documents.Write {
	s := r.Status
	s.ReturnedBy, s.Returned = r.Worker, now
	due, note := r.Due, ""
	if why != nil {
		due = later(now, r.Due)
		s.Error = shorten(fmt.Sprintf("worker %s (%s) could not begin: %v", r.Worker, r.WorkerName, why))
		note = s.Error
	}
	s.tried(r.Status, OutcomeReturned, note, now)
	return c.wait(r, s, due)
}

// wait makes an assigned job wait, as s, until a time.
func (c changes) wait(r record, s Status, due time.Time) []documents.Write {
	s.State, s.Worker, s.WorkerName, s.Due = Waiting, 0, "", due
	return []documents.Write{
		r.become(s), documents.DeleteAny(c.paths.assignment(r.Status)),
		documents.Create(c.paths.entry(s), nil),
	}
}

// outcome is how a try has ended.
type outcome struct {
	result json.RawMessage
	note   string // why there is no result
	err    error  // nil: done
	final  bool   // no further try
}

// finish ends a try of an assigned job: the job is done, waits for another try or for its next
// round, or has failed.
func (c changes) finish(r record, spec Spec, o outcome, now time.Time) []documents.Write {
	s := r.Status
	state, how := Done, OutcomeDone
	s.Error, s.Result = o.note, o.result
	if o.err != nil {
		state, how = Failed, OutcomeFailed
		s.Failures++
		s.Error = alsoSay(shorten(o.err.Error()), o.note)
	}
	s.tried(r.Status, how, s.Error, now)
	if o.err != nil && s.Failures <= spec.Retries && !o.final {
		return c.wait(r, s, later(now.Add(spec.backoff(s.Failures)), r.Due))
	}
	again, err := parseEvery(spec.Every)
	if err != nil { // it was good where it came in; this machine does not know its time zone
		s.Error = shorten(alsoSay("it does not start again: "+err.Error(), s.Error))
		return c.end(r, s, Failed, now)
	}
	if due, repeats := again.next(spec.first(r.Submitted), later(now, r.Due)); repeats {
		s.Rounds++
		s.Failures, s.Lost, s.RoundToken, s.Ended = 0, 0, 0, now
		return c.wait(r, s, due)
	}
	return c.end(r, s, state, now)
}

// later returns the later of two times. A job is never due before its round, although the clock of
// the assigner may be ahead: at its end the round would be due again.
func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// cancelNow ends a job because somebody has cancelled it.
func (c changes) cancelNow(r record, now time.Time) []documents.Write {
	s := r.Status
	if r.State != Waiting {
		s.tried(r.Status, OutcomeCancelled, "", now)
	}
	return c.end(r, s, Cancelled, now)
}

// end ends a job as s, in this state.
func (c changes) end(r record, s Status, state State, now time.Time) []documents.Write {
	s.State, s.Paused, s.Ended = state, false, now
	s.Expires = now.Add(s.keep())
	s.Kept = s.Bytes + len(s.Result) + len(encode(s.History))
	if state == Done { // any other may be tried again by hand, and keeps its resource
		s.Number = 0
	}
	writes := []documents.Write{r.become(s), documents.Create(c.paths.expiry(s), nil)}
	if s.Number != r.Number {
		writes = append(writes, documents.DeleteAny(c.paths.resource(r.Number)))
	}
	switch r.State {
	case Waiting:
		writes = append(writes, documents.DeleteAny(c.paths.entry(r.Status)))
	case Assigned, Running:
		writes = append(writes, documents.DeleteAny(c.paths.assignment(r.Status)))
	}
	if r.Unique != "" {
		writes = append(writes, documents.DeleteAny(c.paths.unique(r.Unique)))
	}
	return writes
}

// retry makes a job that has failed or was cancelled wait again.
func (c changes) retry(r record, now time.Time) []documents.Write {
	s := r.Status
	s.State, s.Worker, s.WorkerName, s.Due = Waiting, 0, "", now
	s.Failures, s.Lost, s.Expires = 0, 0, time.Time{}
	writes := []documents.Write{
		r.become(s), documents.DeleteAny(c.paths.expiry(r.Status)),
		documents.Create(c.paths.entry(s), nil),
	}
	if r.Unique != "" {
		writes = append(writes, documents.Create(c.paths.unique(r.Unique), []byte(r.ID)))
	}
	return writes
}

// move has a waiting job wait as s, at another place of those that wait.
func (c changes) move(r record, s Status) []documents.Write {
	writes := []documents.Write{r.become(s)}
	if from, to := c.paths.entry(r.Status), c.paths.entry(s); r.State == Waiting && from != to {
		writes = append(writes, documents.DeleteAny(from), documents.Create(to, nil))
	}
	return writes
}

// forget deletes what is left of a finished job. If it has led a resource and wants a clean-up,
// that is submitted in the same change: from then on nobody can try the job again.
func (c changes) forget(r record, now time.Time) []documents.Write {
	writes := []documents.Write{
		documents.Delete(r.doc), documents.DeleteAny(c.paths.spec(r.ID)),
		documents.DeleteAny(c.paths.expiry(r.Status)),
	}
	if r.Number != 0 {
		writes = append(writes, documents.DeleteAny(c.paths.resource(r.Number)))
	}
	if r.CleanUp != "" && r.Resource != "" {
		writes = append(writes, c.submit(newID(now), cleanUp(r.Status), now)...)
	}
	return writes
}

// cleanUp is the job that cleans up after a forgotten one.
func cleanUp(s Status) Spec {
	s.Result, s.History = nil, nil // may be too large
	return Spec{
		Kind: s.CleanUp, Payload: encode(s), Resource: s.Resource, Labels: s.Labels, Retries: MaxRetries,
	}
}

// shorten cuts a text that is too long for a status.
func shorten(text string) string { return shortenTo(text, MaxError) }

func shortenTo(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return text[:most-len("…")] + "…"
}
