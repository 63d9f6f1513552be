package fence

import (
	"errors"
	"fmt"
	"testing"
)

func TestARefusalIsItsReason(t *testing.T) {
	cause := errors.New("timed out")
	err := fmt.Errorf("insert: %w", &Refusal{Reason: ErrNoCoordinator, Cause: cause})
	for _, match := range []error{ErrNoCoordinator, ErrNotLeader, cause} {
		if !errors.Is(err, match) {
			t.Errorf("it is not %q", match)
		}
	}
	for _, other := range []error{ErrStale, Reason(""), ErrBadToken} {
		if errors.Is(err, other) {
			t.Errorf("it is also %q", other)
		}
	}
	if errors.Is(&Refusal{Reason: ErrNotLeader}, ErrNoCoordinator) {
		t.Error("who does not lead is taken for one of whom nobody knows")
	}
}

func TestWhichRefusalsAreMetAgain(t *testing.T) {
	for err, permanent := range map[error]bool{
		&Refusal{Reason: ErrOtherIssuer}: true, ErrNotInstalled: true, Reason("one_of_a_later_version"): true,
		&Refusal{Reason: ErrStale}: false, ErrNotLeader: false, ErrNoCoordinator: false, ErrUnrevoked: false,
		errors.New("cut off"): false, errors.Join(ErrLost, ErrUnrevoked, &Refusal{Reason: ErrOtherIssuer}): true,
	} {
		if Permanent(fmt.Errorf("raise: %w", err)) != permanent {
			t.Errorf("%v: permanent is %v", err, !permanent)
		}
	}
}
