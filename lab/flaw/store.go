package flaw

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
)

// End ends sessions of the database and returns when they are gone. A session that is gone already
// is no error.
type End func(ctx context.Context, all []marks.SessionID) error

// Store returns the real store with a flaw of the guard. Memory ends sessions itself, with end.
func Store(name Name, real marks.Store, end End, log *slog.Logger) (marks.Store, error) {
	switch name {
	case Observe:
		return &observer{forgetful{real}, log}, nil
	case Apart:
		return &apart{real}, nil
	case Memory:
		return newMemory(end), nil
	case RefuseSame:
		return &refuser{Store: real, raised: map[fence.Claim]bool{}}, nil
	case CopiedMark:
		return forgetful{real}, nil
	case Forgetful, Numbers, OneServer, LogInPath, Renamed:
		return real, nil // the wiring has the flaw
	case NoRoom:
		return loggedIn{real}, nil
	case AdmitLast:
		return &lenient{forgetful: forgetful{real}, last: map[fence.Resource]fence.Token{}}, nil
	}
	return nil, fmt.Errorf("%q is not a flaw of the guard: there are %v", name,
		[]Name{
			Observe, Apart, Memory, RefuseSame, AdmitLast, CopiedMark, Forgetful, Numbers, OneServer,
			NoRoom, LogInPath, Renamed,
		})
}

// Authority returns the authority for a guard with this flaw. A real guard asks the coordinator at
// each admission; this second barrier would hide a flaw of the first, the mark: it would refuse a
// stale token itself, and blame the coordinator if a leading token is refused as stale
// (RefuseSame).
func Authority(name Name, real marks.Authority) marks.Authority {
	switch name {
	case Observe:
		return anybody{unasked{real}}
	case RefuseSame, Apart, AdmitLast, CopiedMark:
		return unasked{real}
	case Memory:
		return marks.Unverified{}
	case Numbers:
		return numbers{real}
	}
	return real
}

// unasked makes the mark alone decide who is admitted. Raises still need the real authority.
type unasked struct{ marks.Authority }

// Verify accepts every claim.
func (u unasked) Verify(ctx context.Context, claims []marks.Presented) ([]fence.Claim, error) {
	is, err := u.Issuer(ctx)
	return marks.Under(is, claims), err
}

// Verifies is false: Verify also accepts tokens that do not lead.
func (u unasked) Verifies() bool { return false }

// anybody lets every token raise the mark, with the real authority's corrections if it has any.
type anybody struct{ unasked }

// Confirm accepts every claim.
func (a anybody) Confirm(ctx context.Context, c fence.Claim, m marks.Mark) (fence.Claim, error) {
	if confirmed, err := a.Authority.Confirm(ctx, c, m); err == nil {
		return confirmed, nil
	}
	return c, nil
}

// forgetful keeps marks.Admission from remembering marks, with which it would refuse what the flaw
// admits. Admission does not remember unconfirmed marks.
type forgetful struct{ marks.Store }

// Register calls the real one, and hides the mark.
func (f forgetful) Register(
	ctx context.Context, s marks.SessionID, claims []fence.Claim,
) (marks.Registration, error) {
	st, err := f.Store.Register(ctx, s, claims)
	st.Mark = marks.Mark{Resource: st.Mark.Resource, Confirmed: st.Mark.Confirmed}
	return st, err
}

// Marks returns the real ones, as unconfirmed.
func (f forgetful) Marks(ctx context.Context, only ...fence.Resource) ([]marks.Mark, error) {
	marks, err := f.Store.Marks(ctx, only...)
	for i := range marks {
		marks[i].Confirmed = false
	}
	return marks, err
}

// refused returns the refusal in err; nil if the database could not be reached.
func refused(err error) *fence.Refusal {
	var r *fence.Refusal
	errors.As(err, &r)
	return r
}
