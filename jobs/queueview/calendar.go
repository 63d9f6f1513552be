package queueview

import (
	"context"

	"github.com/ringfence/ringfence/jobs/job"
	"github.com/ringfence/ringfence/jobs/schedule"
)

// Calendar returns what lies ahead of a job. It is nil if the job has ended or does not repeat, or
// if this machine does not know its time zone.
func (v *View) Calendar(ctx context.Context, s job.Status) (*schedule.Calendar, error) {
	if s.Every == "" || s.State.Finished() {
		return nil, nil
	}
	spec, err := v.store.Spec(ctx, s.ID)
	if err != nil {
		return nil, err
	}
	ahead, err := spec.Calendar(s.Submitted, v.store.Now())
	if err != nil {
		return nil, nil
	}
	return &ahead, nil
}
