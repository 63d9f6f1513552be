package jobs_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/jobs/job"
)

type merchant struct{ Name string }

type receipt struct{ Orders int }

func TestATypedHandlerGetsThePayloadAndReturnsTheResult(t *testing.T) {
	var w jobs.Worker
	bad := errors.New("bad")
	jobs.Handle(&w, "settle", func(_ context.Context, _ *jobs.Run, m merchant) (receipt, error) {
		switch m.Name {
		case "poor":
			return receipt{}, bad
		case "half":
			return receipt{Orders: 1}, bad
		}
		return receipt{Orders: len(m.Name)}, nil
	})
	for payload, want := range map[string]struct {
		result any
		err    error
	}{
		`{"name":"m17"}`:  {receipt{Orders: 3}, nil},
		`{"name":"poor"}`: {nil, bad},
		`{"name":"half"}`: {receipt{Orders: 1}, bad},
	} {
		r := &jobs.Run{Spec: job.Spec{Payload: json.RawMessage(payload)}}
		if got, err := w.Handlers["settle"](t.Context(), r); got != want.result || err != want.err {
			t.Errorf("%s: got %v, %v", payload, got, err)
		}
	}
	for _, payload := range []string{"", `{"name":17}`} {
		r := &jobs.Run{Spec: job.Spec{Payload: json.RawMessage(payload)}}
		got, err := w.Handlers["settle"](t.Context(), r)
		if got != nil || err == nil || errors.Is(err, bad) {
			t.Errorf("%q: got %v, %v", payload, got, err)
		}
	}
}
