package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/cmd/internal/logging"
	"github.com/ringfence/ringfence/jobs/job"
	"github.com/ringfence/ringfence/jobs/queueview"
)

// Logs prints what a command, or those of a task, have written: in the attempt that runs, so far,
// or else in the last one that has ended.
func (v *Invocation) Logs(ctx context.Context, id job.ID) int {
	return v.with(ctx, "show what job "+string(id)+" has written",
		func(ctx context.Context, q *queueview.View) error {
			s, err := q.Get(ctx, id)
			if err != nil {
				return err
			}
			if _, ours := kinds[s.Kind]; !ours {
				return fmt.Errorf("nothing keeps what a job of kind %s writes: leader jobs %s show %s prints "+
					"its result",
					cli.Printable(s.Kind), v.Group, id)
			}
			if s.State == job.Running {
				switch err := v.soFar(ctx, q, id); {
				case err == nil:
					return nil
				case errors.Is(err, job.ErrWrongState): // it has ended meanwhile
					if s, err = q.Get(ctx, id); err != nil {
						return err
					}
				default:
					return fmt.Errorf("%w; its last attempt may have left something: leader jobs %s show %s", err,
						v.Group, id)
				}
			}
			r, ended := resultOf(s)
			if !ended {
				return fmt.Errorf("it is %s, and no try of it has ended", s.State)
			}
			return v.write(ctx, r)
		})
}

// soFar prints what a running job has written so far.
func (v *Invocation) soFar(ctx context.Context, q *queueview.View, id job.ID) error {
	p, err := q.Peek(ctx, id)
	if err != nil {
		return err
	}
	var r Result
	if len(p.Result) > 0 {
		if err := json.Unmarshal(p.Result, &r); err != nil {
			return err
		}
	}
	v.Log.Info("the job runs; this is the end of what it has written so far", "job", string(id),
		"attempt", p.Attempt)
	return v.write(ctx, r)
}

// write prints what a command has written: to standard error as well, results are not a log.
func (v *Invocation) write(ctx context.Context, r Result) error {
	_, err := fmt.Fprint(logging.NewOutput(ctx, v.Stderr), r.Stderr)
	_, err2 := fmt.Fprint(v.Stdout, r.Stdout)
	return errors.Join(err, err2)
}
