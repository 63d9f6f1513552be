package jobs

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/internal/network/backoff"
	"github.com/ringfence/ringfence/jobs/internal/records"
	"github.com/ringfence/ringfence/jobs/job"
)

const (
	peekPause   = 200 * time.Millisecond // between two looks for peeks
	peeksAtOnce = 20                     // that a worker answers then
)

// Show has queueview.View.Peek answer with what f returns, as JSON, while the handler runs. f is
// called from another goroutine, never twice at a time, perhaps once after the handler has
// returned, and must not wait for anything. An answer of more than MaxPeek bytes is not sent.
func (r *Run) Show(f func() any) { r.shows.Store(&f) }

// followPeeks answers those who look at jobs that run here.
func (r *runner) followPeeks(ctx context.Context) {
	answered := map[string]bool{}
	r.keepWatching(ctx, "peeks", func(ctx context.Context) error {
		return r.Queue.store.Docs.WatchNames(ctx, r.Queue.store.Paths.Peeks(),
			func(names []string) error {
				there := records.Set(names)
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
		run := r.running(job.ID(id))
		if run == nil {
			continue
		}
		mine++
		answered[name] = true
		err := r.answerOne(ctx, r.Queue.store.Paths.Peeks()+"/"+name, run)
		if err != nil && ctx.Err() == nil {
			r.Log.Debug("who looks at a job gets no answer", "job", id, "error", err)
		}
	}
	return mine
}

func (r *runner) answerOne(ctx context.Context, at string, run *Run) error {
	ctx, cancel := context.WithTimeout(ctx, records.AnnounceTimeout)
	defer cancel()
	return records.Retry(ctx, func() error {
		d, err := r.Queue.store.Document(ctx, at)
		if err != nil || !d.Exists() || len(d.Data) > 0 { // it has ended, or is answered
			return err
		}
		_, err = r.Queue.store.Docs.Change(ctx, documents.Change{
			While:  []fence.Claim{run.Term.Claim()},
			Writes: []documents.Write{documents.Replace(d, run.peeked())},
		})
		return err
	})
}

// peeked is the answer to a peek. A panic of the handler's function has no result.
func (r *Run) peeked() []byte {
	p := job.Peeked{Attempt: r.Attempt}
	if f := r.shows.Load(); f != nil {
		o := call(context.Background(), func(context.Context, *Run) (any, error) {
			return (*f)(), nil
		}, r)
		if len(o.Result) <= job.MaxPeek {
			p.Result = o.Result
		}
	}
	return records.Encode(p)
}
