package jobs_test

import (
	"errors"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence/fencetest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/jobs/job"
)

func TestSubmitWritesWhatAHandlerReads(t *testing.T) {
	q := memoryQueue(t)
	id, err := jobs.Submit(t.Context(), q, "settle", merchant{"m17"}, job.Spec{Retries: 3})
	must.Succeed(t, err)
	spec, err := q.Spec(t.Context(), id)
	if err != nil || spec.Kind != "settle" || spec.Retries != 3 {
		t.Errorf("submitted: %+v, %v", spec, err)
	}
	var in merchant
	if err := (&jobs.Run{Spec: spec}).Decode(&in); err != nil || in.Name != "m17" {
		t.Errorf("the handler gets %+v, %v", in, err)
	}
}

func TestSubmitRefusesASecondPayload(t *testing.T) {
	q := memoryQueue(t)
	for what, rest := range map[string][]job.Spec{
		"a kind":    {{Kind: "other"}},
		"a payload": {{Payload: []byte("{}")}},
		"two specs": {{}, {}},
	} {
		if _, err := jobs.Submit(t.Context(), q, "settle", merchant{}, rest...); !errors.Is(err,
			job.ErrBadSpec) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := jobs.Submit(t.Context(), q, "settle", func() {}); !errors.Is(err, job.ErrBadSpec) {
		t.Errorf("a function: %v", err)
	}
}

func memoryQueue(t *testing.T) *jobs.Queue {
	t.Helper()
	c := fencetest.NewMemory(10 * time.Second).Open()
	t.Cleanup(func() { c.Close() })
	q, err := jobs.New(c, "g")
	must.Succeed(t, err)
	return q
}
