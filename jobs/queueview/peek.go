package queueview

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/jobs/internal/records"
	"github.com/ringfence/ringfence/jobs/job"
)

// peekPatience is how long Peek waits for the answer of the worker.
const peekPatience = 5 * time.Second

// ErrNoAnswer: the worker of a running job has not said what the job has brought so far.
var ErrNoAnswer = errors.New("the worker does not answer")

// Peek asks the worker of a running job what the job has brought so far. It waits five seconds for
// the answer. ErrWrongState: it does not run. ErrNoAnswer: its worker is slow, cut off or gone, or
// the attempt has ended meanwhile.
func (v *View) Peek(ctx context.Context, id job.ID) (p job.Peeked, err error) {
	s, err := v.store.Get(ctx, id)
	if err != nil {
		return p, err
	}
	if s.State != job.Running {
		return p, fmt.Errorf("%w: %s is %s", job.ErrWrongState, id, s.State)
	}
	at := v.store.Paths.Peeks() + "/" + string(id) + "." + string(records.NewID(v.store.Now()))
	if err := v.store.Create(ctx, at, nil); err != nil {
		return p, v.store.About(id, err)
	}
	defer v.store.EndPeek(context.WithoutCancel(ctx), at)
	limited, cancel := context.WithTimeoutCause(ctx, peekPatience, ErrNoAnswer)
	defer cancel()
	answered := errors.New("the worker has answered")
	err = v.store.Docs.Watch(limited, at, func(d documents.Document) error {
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
	return p, v.store.About(id, err)
}
