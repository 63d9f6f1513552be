package fence

import (
	"context"
	"errors"
	"testing"
)

// raiser counts raises.
type raiser struct {
	raised int
	err    error
}

func (r *raiser) Raise(context.Context, Claim) error { r.raised++; return r.err }

func TestWhatRunsUnderAClaimIsCalledAgainOnceTheMarkIsRaised(t *testing.T) {
	no := errors.New("no")
	unraised := &Refusal{Reason: ErrNotRaised}
	for name, test := range map[string]struct {
		answers       []error // of the calls, in order
		raise, want   error
		calls, raises int
	}{
		"at once":              {[]error{nil}, nil, nil, 1, 0},
		"after a raise":        {[]error{unraised, nil}, nil, nil, 2, 1},
		"never":                {[]error{unraised, unraised}, nil, ErrNotRaised, 2, 1},
		"the raise is refused": {[]error{unraised}, &Refusal{Reason: ErrStale}, ErrStale, 1, 1},
		"stale":                {[]error{&Refusal{Reason: ErrStale}}, nil, ErrStale, 1, 0},
		"another error":        {[]error{no}, nil, no, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r, calls := &raiser{err: test.raise}, 0
			err := (Claim{}).RetryRaised(t.Context(), r, func(context.Context) error {
				calls++
				return test.answers[calls-1]
			})
			if !errors.Is(err, test.want) || calls != test.calls || r.raised != test.raises {
				t.Errorf("%v after %d calls and %d raises", err, calls, r.raised)
			}
		})
	}
}
