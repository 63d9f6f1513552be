package jobs

import (
	"context"
	"errors"
	"time"
)

// several is how many jobs run when a worker is killed.
const several = 8

// killedWorker measures when the jobs of a killed worker run elsewhere. Another process assigns.
func killedWorker(ctx context.Context, s *stage) ([]float64, error) {
	if _, err := s.worker(ctx, idle, 1); err != nil {
		return nil, err
	}
	var workers [2]*child
	for i := range workers {
		w, err := s.worker(ctx, held, several)
		if err != nil {
			return nil, err
		}
		workers[i] = w
	}
	if _, err := load(ctx, s.queue, several, 1); err != nil {
		return nil, err
	}
	lost := 0
	for range several {
		select {
		case <-workers[0].begun:
			lost++
		case <-workers[1].begun:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	if lost == 0 {
		return nil, errors.New("the worker that is to be killed has no jobs")
	}
	began := time.Now()
	workers[0].Kill()
	last, err := lastOf(ctx, workers[1], lost)
	return []float64{ms(last.Sub(began) - s.plan.timeout)}, err
}

// lastOf waits until a worker has begun so many jobs, and returns when the last one began.
func lastOf(ctx context.Context, w *child, jobs int) (last time.Time, err error) {
	for range jobs {
		b, err := w.next(ctx)
		if err != nil {
			return last, err
		}
		if b.at.After(last) {
			last = b.at
		}
	}
	return last, nil
}

// killedAssigner measures when a new job starts after the assigner was killed, which runs
// nothing itself.
func killedAssigner(ctx context.Context, s *stage) ([]float64, error) {
	assigner, err := s.worker(ctx, idle, 1)
	if err != nil {
		return nil, err
	}
	w, err := s.worker(ctx, held, several)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	assigner.Kill()
	if err := s.queue.submit(ctx, 1); err != nil {
		return nil, err
	}
	b, err := w.next(ctx)
	return []float64{ms(b.at.Sub(began) - s.plan.timeout)}, err
}
