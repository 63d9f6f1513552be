package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/internal/network/backoff"
)

// A peek is a document that somebody creates to see what a running job has brought so far, and
// deletes once the job's worker has put the answer into it. So a job that nobody looks at costs
// nothing, and one that many look at costs a write for each look. The answer is a copy for people:
// no step of a job reads it, and nothing depends on it. A peek that is left behind is deleted by
// the assigner.

const (
	// MaxPeek is how many bytes an answer has at most.
	MaxPeek = 50_000

	peekPatience = 5 * time.Second        // of who looks, for the answer of the worker
	peekPause    = 200 * time.Millisecond // of a worker, between two looks for peeks
	peeksAtOnce  = 20                     // that a worker answers then
	peekLeft     = time.Minute            // after it, a peek was left behind
)

// ErrNoAnswer: the worker of a running job has not said what the job has brought so far.
var ErrNoAnswer = errors.New("the worker does not answer")

// Peeked is what a running job has brought so far.
type Peeked struct {
	Attempt int `json:"attempt"`
	// of the form of the job's result, if its handler shows any
	Result json.RawMessage `json:"result,omitempty"`
}

// Show has Queue.Peek answer with what f returns, as JSON, while the handler runs. f is called from
// another goroutine, never twice at a time, perhaps once after the handler has returned, and must
// not wait for anything. An answer of more than MaxPeek bytes is not sent.
func (r *Run) Show(f func() any) { r.shows.Store(&f) }

// Peek asks the worker of a running job what the job has brought so far. It waits five seconds for
// the answer. ErrWrongState: it does not run. ErrNoAnswer: its worker is slow, cut off or gone, or
// the attempt has ended meanwhile.
func (q *Queue) Peek(ctx context.Context, id ID) (p Peeked, err error) {
	s, err := q.Get(ctx, id)
	if err != nil {
		return p, err
	}
	if s.State != Running {
		return p, fmt.Errorf("%w: %s is %s", ErrWrongState, id, s.State)
	}
	at := q.paths.peeks() + "/" + string(id) + "." + string(newID(q.now()))
	if err := q.create(ctx, at, nil); err != nil {
		return p, q.about(id, err)
	}
	defer q.endPeek(context.WithoutCancel(ctx), at)
	limited, cancel := context.WithTimeoutCause(ctx, peekPatience, ErrNoAnswer)
	defer cancel()
	answered := errors.New("the worker has answered")
	err = q.docs.Watch(limited, at, func(d documents.Document) error {
		if len(d.Data) == 0 {
			return nil
		}
		if err := json.Unmarshal(d.Data, &p); err != nil {
			return err
		}
		return answered
	})
	switch {
	case errors.Is(err, answered):
		return p, nil
	case errors.Is(context.Cause(limited), ErrNoAnswer):
		err = ErrNoAnswer
	}
	return p, q.about(id, err)
}

// endPeek deletes a peek. If it cannot, the assigner does.
func (q *Queue) endPeek(ctx context.Context, at string) {
	ctx, cancel := context.WithTimeout(ctx, announceTimeout)
	defer cancel()
	_ = retry(ctx, func() error {
		_, err := q.docs.Change(ctx, documents.Change{Writes: []documents.Write{documents.DeleteAny(at)}})
		if errors.Is(err, documents.ErrConflict) {
			return nil // it is gone
		}
		return err
	})
}

// followPeeks answers those who look at jobs that run here.
func (r *runner) followPeeks(ctx context.Context) {
	answered := map[string]bool{}
	r.keepWatching(ctx, "peeks", func(ctx context.Context) error {
		return r.Queue.docs.WatchNames(ctx, r.Queue.paths.peeks(), func(names []string) error {
			there := asSet(names)
			maps.DeleteFunc(answered, func(name string, _ bool) bool { return !there[name] })
			names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return answered[name] })
			for some := range slices.Chunk(names, peeksAtOnce) {
				if r.answer(ctx, some, answered) > 0 {
					backoff.Pause(ctx, peekPause)
				}
			}
			return nil
		})
	})
}

// answer answers the peeks at jobs that run here, each under the term of its job, and returns how
// many there were. Who gets no answer in time may look again.
func (r *runner) answer(ctx context.Context, peeks []string, answered map[string]bool) (mine int) {
	for _, name := range peeks {
		id, _, _ := strings.Cut(name, ".")
		run := r.running(ID(id))
		if run == nil {
			continue
		}
		mine++
		answered[name] = true
		if err := r.answerOne(ctx, r.Queue.paths.peeks()+"/"+name, run); err != nil && ctx.Err() == nil {
			r.Log.Debug("who looks at a job gets no answer", "job", id, "error", err)
		}
	}
	return mine
}

func (r *runner) answerOne(ctx context.Context, at string, run *Run) error {
	ctx, cancel := context.WithTimeout(ctx, announceTimeout)
	defer cancel()
	return retry(ctx, func() error {
		d, err := r.Queue.document(ctx, at)
		if err != nil || !d.Exists() || len(d.Data) > 0 { // it has ended, or is answered
			return err
		}
		_, err = r.Queue.docs.Change(ctx, documents.Change{
			While:  []fence.Claim{run.Term.Claim()},
			Writes: []documents.Write{documents.Replace(d, run.peeked())},
		})
		return err
	})
}

// peeked is the answer to a peek. A panic of the handler's function has no result.
func (r *Run) peeked() []byte {
	p := Peeked{Attempt: r.Attempt}
	if f := r.shows.Load(); f != nil {
		o := call(context.Background(), func(context.Context, *Run) (any, error) {
			return (*f)(), nil
		}, r)
		if len(o.result) <= MaxPeek {
			p.Result = o.result
		}
	}
	return encode(p)
}

// running returns the run of a job whose handler runs here, nil if there is none.
func (r *runner) running(id ID) *Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.tries {
		if t.id == id && t.running != nil {
			return t.running
		}
	}
	return nil
}

// runs says which run of the job's handler lasts; nil for none.
func (t *try) runs(run *Run) {
	t.runner.mu.Lock()
	defer t.runner.mu.Unlock()
	t.running = run
}

// sweepPeeks deletes peeks that were left behind.
func (a *assigner) sweepPeeks() error {
	names, err := a.q.docs.Names(a.ctx, a.q.paths.peeks())
	if err != nil {
		return err
	}
	there := asSet(names)
	maps.DeleteFunc(a.peeks, func(name string, _ time.Time) bool { return !there[name] })
	for _, name := range names {
		switch since, seen := a.peeks[name]; {
		case !seen:
			a.peeks[name] = time.Now()
		case time.Since(since) >= peekLeft:
			a.q.endPeek(a.ctx, a.q.paths.peeks()+"/"+name)
		}
	}
	return nil
}
