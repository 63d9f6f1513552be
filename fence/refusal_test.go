package fence

import (
	"errors"
	"fmt"
	"testing"
)

func TestARefusalIsItsReason(t *testing.T) {
	cause := errors.New("timed out")
	err := fmt.Errorf("insert: %w", &Refusal{Reason: ErrNoCoordinator, Cause: cause})
	for _, match := range []error{ErrNoCoordinator, cause} {
		if !errors.Is(err, match) {
			t.Errorf("it is not %q", match)
		}
	}
	for _, other := range []error{ErrStale, ErrNotLeader, ErrNotRaised, Reason(""), ErrBadToken} {
		if errors.Is(err, other) {
			t.Errorf("it is also %q", other)
		}
	}
}

func TestWhichRefusalsAreMetAgain(t *testing.T) {
	type is struct{ permanent, temporary bool }
	for err, want := range map[error]is{
		&Refusal{Reason: ErrOtherIssuer}: {true, false}, ErrNotInstalled: {true, false},
		ErrMarkInDoubt: {true, false}, ErrNotAuthorized: {true, false},
		Reason("one_of_a_later_version"): {true, false}, errors.New("cut off"): {},
		&Refusal{Reason: ErrStale}: {}, ErrNotLeader: {false, true}, ErrNotRaised: {false, true},
		&Refusal{Reason: ErrNoCoordinator}: {false, true}, ErrUnrevoked: {false, true},
		errors.Join(ErrLost, ErrUnrevoked, &Refusal{Reason: ErrOtherIssuer}): {true, true},
	} {
		wrapped := fmt.Errorf("raise: %w", err)
		if got := (is{Permanent(wrapped), Temporary(wrapped)}); got != want {
			t.Errorf("%v: %+v", err, got)
		}
	}
}
