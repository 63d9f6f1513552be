package marks

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/fence"
)

func TestTheStepsOfAnAdmissionTakeAsLongAsTheAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told Event
		a := &Admission{Notify: func(e Event) { told = e }}
		ctx, steps := WithSteps(t.Context())
		time.Sleep(time.Millisecond)
		endRaise := StepRaise.Begin(ctx)
		time.Sleep(10 * time.Millisecond)
		endIssuer := StepIssuer.Begin(ctx) // a raise asks the authority
		time.Sleep(100 * time.Millisecond)
		endIssuer()
		time.Sleep(10 * time.Millisecond)
		endRaise()
		endIssuer = StepIssuer.Begin(ctx)
		time.Sleep(time.Second)
		endIssuer()
		a.Finish(t.Context(), steps, fence.Claim{Resource: "orders", Token: 5}, nil)

		want := map[Step]time.Duration{
			StepOther: time.Millisecond, StepRaise: 20 * time.Millisecond,
			StepIssuer: 1100 * time.Millisecond,
		}
		if !maps.Equal(told.Steps, want) {
			t.Errorf("steps: %v, want %v", told.Steps, want)
		}
		var sum time.Duration
		for _, took := range slices.Collect(maps.Values(told.Steps)) {
			sum += took
		}
		if told.Kind != Finished || told.Took != sum {
			t.Errorf("%s took %s, its steps %s", told.Kind, told.Took, sum)
		}
	})
}

func TestAStepOfAnAdmissionThatNobodyMeasuresCostsNothing(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { StepRaise.Begin(t.Context())() }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
