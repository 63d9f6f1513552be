package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/jobs/internal/records"
	"github.com/ringfence/ringfence/jobs/job"
	"github.com/ringfence/ringfence/jobs/schedule"
)

// Pause keeps a job from being assigned until Resume: no further attempt or round of it begins. An
// attempt that was assigned before goes on. Pausing it again changes nothing. ErrWrongState: it has
// ended.
func (q *Queue) Pause(ctx context.Context, id job.ID) error {
	return q.hold(ctx, id, func(s job.Status) (job.Status, error) {
		s.Paused = true
		return s, nil
	})
}

// Resume ends a pause. A job that repeats starts again when its schedule says so, and the rounds
// that were due in between are left out. A job that is not paused stays as it is. ErrWrongState: it
// has ended.
func (q *Queue) Resume(ctx context.Context, id job.ID) error {
	spec, err := q.Spec(ctx, id)
	if err != nil {
		return err
	}
	again, err := schedule.Parse(spec.Every)
	if err != nil {
		return q.store.About(id, err)
	}
	return q.hold(ctx, id, func(s job.Status) (job.Status, error) {
		now := q.store.Now()
		if s.Paused && s.State == job.Waiting && s.RoundToken == 0 && s.Due.Before(now) {
			if due, repeats := again.Next(spec.FirstDue(s.Submitted), now); repeats {
				s.Due = due
			}
		}
		s.Paused = false
		return s, nil
	})
}

// RunNow has a job that waits for its time assigned at once. The rounds of one that repeats stay
// where its schedule has them. ErrWrongState: it does not wait, or is paused.
func (q *Queue) RunNow(ctx context.Context, id job.ID) error {
	return q.hold(ctx, id, func(s job.Status) (job.Status, error) {
		switch now := q.store.Now(); {
		case s.State != job.Waiting:
			return s, fmt.Errorf("%w: %s is %s", job.ErrWrongState, id, s.State)
		case s.Paused:
			return s, fmt.Errorf("%w: %s is paused", job.ErrWrongState, id)
		case s.Due.Truncate(time.Millisecond).After(now):
			s.Due = now
		}
		return s, nil
	})
}

// hold changes when an unfinished job is assigned.
func (q *Queue) hold(
	ctx context.Context, id job.ID, next func(job.Status) (job.Status, error),
) error {
	_, err := q.store.Step(ctx, id, records.Record{},
		func(r records.Record) ([]documents.Write, error) {
			s, err := next(r.Status)
			switch {
			case r.State.Finished() && err == nil:
				err = fmt.Errorf("%w: %s is %s", job.ErrWrongState, id, r.State)
			case err == nil && s.Paused == r.Paused && s.Due.Equal(r.Due):
				return nil, nil
			}
			if err != nil {
				if r.AnswerLost { // it was made, and the job has gone on since
					err = nil
				}
				return nil, err
			}
			return q.store.Changes.Move(r, s), nil
		})
	return err
}
