package marks

import (
	"context"
	"time"
)

// Step is a part of an admission, for logs and metrics.
type Step string

const (
	// dial the server for the client, where that is part of the admission
	StepConnect  Step = "connect"
	StepLogin    Step = "login"    // pass on a login that carries the claim
	StepIdentify Step = "identify" // ask the server which session the client's connection is
	StepIssuer   Step = "issuer"   // ask the authority whose tokens these are, and who leads
	StepRegister Step = "register" // record the session, or find out what keeps it from being recorded
	// raise the mark, without the time that the authority takes meanwhile
	StepRaise  Step = "raise"
	StepRevoke Step = "revoke" // end older sessions and wait until they are gone
	StepSlot   Step = "slot"   // wait for a slot among the admitted sessions
	StepOther  Step = "other"  // everything else
)

// Steps measures the steps of one admission. A step within another counts for itself alone, so all
// of them together take as long as the admission. Use it from one goroutine at a time.
type Steps struct {
	began time.Time
	now   Step
	since time.Time
	took  map[Step]time.Duration
}

type stepsKey struct{}

// WithSteps begins to measure the steps that an admission takes under the context.
func WithSteps(ctx context.Context) (context.Context, *Steps) {
	now := time.Now()
	s := &Steps{began: now, now: StepOther, since: now, took: make(map[Step]time.Duration)}
	return context.WithValue(ctx, stepsKey{}, s), s
}

// Begin measures a step until end is called. Without WithSteps it does nothing.
func (step Step) Begin(ctx context.Context) (end func()) {
	s, _ := ctx.Value(stepsKey{}).(*Steps)
	if s == nil {
		return func() {}
	}
	before := s.turn(step)
	return func() { s.turn(before) }
}

// turn charges the time since the last turn to the step that ends.
func (s *Steps) turn(to Step) (before Step) {
	now := time.Now()
	s.took[s.now] += now.Sub(s.since)
	before, s.now, s.since = s.now, to, now
	return before
}
