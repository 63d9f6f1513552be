package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ringfence/ringfence/bench/internal/program"
	"github.com/ringfence/ringfence/bench/internal/rounds"
	"github.com/ringfence/ringfence/jobs/job"
)

// loaders is how many submit at a time what other rows need.
const loaders = 32

// submissions measures how many jobs are submitted per second.
func submissions(ctx context.Context, s *stage) ([]float64, error) {
	speed, err := load(ctx, s.queue, s.plan.jobs, 8)
	return []float64{speed}, err
}

// assignments measures how many jobs are assigned per second.
func assignments(ctx context.Context, s *stage) ([]float64, error) {
	a, err := s.assign(ctx, s.plan.jobs)
	return []float64{a.speed}, err
}

// backlogged measures a long list of waiting jobs.
func backlogged(ctx context.Context, s *stage) ([]float64, error) {
	a, err := s.assign(ctx, s.plan.backlog)
	return []float64{ms(a.first), a.speed, a.memory}, err
}

// members is to how many jobs are assigned.
const members = 4

// assigned is how jobs were assigned.
type assigned struct {
	first  time.Duration // until the first one was
	speed  float64       // jobs per second
	memory float64       // of the process that assigns, at most, in MiB
}

// assign assigns jobs to members that run none.
func (s *stage) assign(ctx context.Context, jobs int) (a assigned, err error) {
	if _, err := load(ctx, s.queue, jobs, loaders); err != nil {
		return a, err
	}
	names, err := s.group.waiting(ctx)
	if err != nil {
		return a, err
	}
	assigner, err := s.worker(ctx, idle, 1)
	if err != nil {
		return a, err
	}
	began := time.Now()
	leave, err := s.group.join(members, jobs)
	if err != nil {
		return a, err
	}
	defer leave()
	defer assigner.End() // before the members leave, whose jobs it would take back
	var last time.Duration
	g, watching := errgroup.WithContext(ctx)
	g.Go(func() (err error) { a.first, err = s.group.leaves(watching, names[0], began); return err })
	g.Go(func() (err error) {
		last, err = s.group.leaves(watching, names[len(names)-1], began)
		return err
	})
	if err := g.Wait(); err != nil {
		return a, err
	}
	a.speed = float64(jobs) / last.Seconds()
	left, err := s.group.waiting(ctx)
	if err == nil && len(left) > atOnce {
		err = fmt.Errorf("the last job was assigned before %d others", len(left))
	}
	if err != nil {
		return a, err
	}
	a.memory, err = assigner.peak()
	return a, err
}

// atOnce is how many jobs may be assigned at about the same time, so that the last of the
// list is not the last one.
const atOnce = 200

// leaves waits until an entry's job waits no more.
func (r *ringfence) leaves(
	ctx context.Context, entry string, began time.Time,
) (took time.Duration, err error) {
	var id job.ID // a part of the entry's name
	for part := range strings.SplitSeq(entry, ".") {
		if parsed, err := job.ParseID(part); err == nil {
			id = parsed
		}
	}
	assigned := errors.New("the job is assigned")
	err = r.jobs.Watch(ctx, id, func(now job.Status) error {
		if now.State == job.Waiting {
			return nil
		}
		took = time.Since(began)
		return assigned
	})
	if errors.Is(err, assigned) {
		err = nil
	}
	return took, err
}

// doneBy measures how many jobs so many workers finish per second.
func doneBy(workers int) func(context.Context, *stage) ([]float64, error) {
	return func(ctx context.Context, s *stage) ([]float64, error) {
		speed, err := s.done(ctx, workers, func() error { return nil })
		return []float64{speed}, err
	}
}

// done returns how many jobs so many workers finish per second. It calls begin when all jobs wait.
func (s *stage) done(ctx context.Context, workers int, begin func() error) (float64, error) {
	for range workers {
		if _, err := s.worker(ctx, gated, s.plan.capacity); err != nil {
			return 0, err
		}
	}
	if _, err := load(ctx, s.queue, s.plan.jobs, loaders); err != nil {
		return 0, err
	}
	if err := begin(); err != nil {
		return 0, err
	}
	began := time.Now()
	for _, w := range s.workers {
		if err := w.open(); err != nil {
			return 0, err
		}
	}
	err := program.Until(ctx, 100*time.Millisecond, func() (bool, error) {
		n, err := s.queue.finished(ctx)
		return n == s.plan.jobs, err
	})
	return float64(s.plan.jobs) / time.Since(began).Seconds(), err
}

// pauseBetween is the pause before each job whose latency is measured.
const pauseBetween = 20 * time.Millisecond

// starts measures how long a job takes to start on an idle worker.
func starts(ctx context.Context, s *stage) ([]float64, error) {
	w, err := s.worker(ctx, quick, s.plan.capacity)
	if err != nil {
		return nil, err
	}
	var took []time.Duration
	for i := range s.plan.starts {
		time.Sleep(pauseBetween)
		began := time.Now()
		if err := s.queue.submit(ctx, i); err != nil {
			return nil, err
		}
		b, err := w.next(ctx)
		if err != nil {
			return nil, err
		}
		took = append(took, b.at.Sub(began))
	}
	slices.Sort(took)
	return []float64{ms(rounds.Percentile(took, 0.5)), ms(rounds.Percentile(took, 0.99))}, nil
}

func ms(d time.Duration) float64 { return d.Seconds() * 1e3 }
