package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"sync/atomic"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/jobs/internal/records"
	"github.com/ringfence/ringfence/jobs/job"
)

// Handle lets a worker run jobs of a kind. f gets the payload, decoded from JSON, and its result is
// published as JSON; Handler has the rules. A payload that does not fit the type is a failure that
// is not tried again. The zero value beside an error is no result. Call it before Worker.Run.
func Handle[In, Out any](
	w *Worker, kind string, f func(ctx context.Context, r *Run, in In) (Out, error),
) {
	if w.Handlers == nil {
		w.Handlers = map[string]Handler{}
	}
	w.Handlers[kind] = func(ctx context.Context, r *Run) (any, error) {
		var in In
		if err := r.Decode(&in); err != nil {
			return nil, err
		}
		out, err := f(ctx, r, in)
		if v := reflect.ValueOf(&out).Elem(); err != nil && v.IsZero() {
			return nil, err
		}
		return out, err
	}
}

// Handler runs jobs of one kind, whatever their payload is; Handle makes one of a function with
// types. ctx ends with the term, with Spec.Timeout, when the job is cancelled or when the worker
// stops; context.Cause says which. What it returns is published as JSON, if the job is still this
// worker's.
//
// An error is a failure, after which the job is tried again as Spec.Retries says. Permanent marks
// one that trying again cannot fix. A result that comes with it is published, too. A result that is
// too large is not kept, and Status.Error says so; the job has succeeded or failed all the same. A
// job may run more than once: its worker can be gone before the result is published. Use the term
// for everything that it writes.
type Handler func(ctx context.Context, r *Run) (result any, err error)

// Run is one try of a job.
type Run struct {
	ID      job.ID
	Spec    job.Spec
	Attempt int // see Status.Attempt
	Failure int // how many tries of this round have failed before
	Term    *fence.Term

	// RoundToken is the token of the first attempt of this round that has begun, if the job repeats.
	// What was written under the job's resource with a lower one is of an earlier round.
	RoundToken fence.Token

	shows atomic.Pointer[func() any] // see Show
}

// Decode reads the payload into v.
func (r *Run) Decode(v any) error {
	if err := json.Unmarshal(r.Spec.Payload, v); err != nil {
		return Permanent(fmt.Errorf("the payload of %s: %w", r.ID, err))
	}
	return nil
}

// Why the context of a Handler has ended, beside the causes of a term and of the worker's context.
var (
	ErrCancelled = errors.New("the job was cancelled")
	ErrTimeout   = errors.New("the job has run for too long")
	// ErrTakenBack: the job is no longer this worker's. What it publishes changes nothing.
	ErrTakenBack = errors.New("the job was taken back")
	// ErrStopping: the worker stops.
	ErrStopping = errors.New("the worker stops")
)

type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// Permanent marks an error after which a job is not tried again. It returns nil for nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return permanent{err}
}

// call calls a handler. A panic is a failure.
func call(ctx context.Context, h Handler, r *Run) (o records.End) {
	defer func() {
		if p := recover(); p != nil {
			o = records.End{Err: fmt.Errorf("the handler has panicked: %v\n%s", p, debug.Stack())}
		}
	}()
	result, err := h(ctx, r)
	o = encodeResult(result)
	if err != nil {
		_, final := errors.AsType[permanent](err)
		return records.End{Result: o.Result, Note: o.Note, Err: err, Final: final}
	}
	return o
}

func encodeResult(result any) records.End {
	if result == nil {
		return records.End{}
	}
	b, err := json.Marshal(result)
	if err != nil {
		return records.End{Err: fmt.Errorf("the result is not JSON: %w", err), Final: true}
	}
	if len(b) > job.MaxResult {
		return records.End{Note: fmt.Sprintf("the result is not kept: it has %d bytes, at most %d are "+
			"allowed; keep it elsewhere, and return where it is", len(b), job.MaxResult)}
	}
	return records.End{Result: b}
}
