package flaw

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
)

// End ends sessions of the database and returns when they are gone; those that are gone already are no error.
type End func(ctx context.Context, all []marks.Session) error

// Store is a store with a flaw of the guard; the rest of it is the real one. end is for Memory, which ends sessions itself.
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
	case AdmitLast:
		return &lenient{forgetful: forgetful{real}, last: map[fence.Resource]fence.Token{}}, nil
	}
	return nil, fmt.Errorf("%q is no flaw of the guard: there are %v", name, []Name{Observe, Apart, Memory, RefuseSame, AdmitLast, CopiedMark})
}

// Authority is who may raise marks in a guard with this flaw, where that is not the real one's matter alone. A guard that
// asks the coordinator at each admission has a second barrier, which would hide a flaw of the first: the mark.
func Authority(name Name, real marks.Authority) marks.Authority {
	switch name {
	case Observe:
		return anybody{unasked{real}}
	case Apart, AdmitLast, CopiedMark:
		return unasked{real}
	case Memory:
		return marks.Unverified{}
	}
	return real
}

// unasked lets the mark alone decide who is admitted. A raise is the real authority's.
type unasked struct{ marks.Authority }

// Verify agrees.
func (u unasked) Verify(ctx context.Context, claims []marks.Presented) ([]fence.Claim, error) {
	is, err := u.Issuer(ctx)
	return marks.Under(is, claims), err
}

// Verifies is false: a token that Verify agrees to may not lead.
func (u unasked) Verifies() bool { return false }

// anybody lets every token raise; what the real authority knows better it adds.
type anybody struct{ unasked }

// Confirm agrees.
func (a anybody) Confirm(ctx context.Context, c fence.Claim, m marks.Mark) (fence.Claim, error) {
	if confirmed, err := a.Authority.Confirm(ctx, c, m); err == nil {
		return confirmed, nil
	}
	return c, nil
}

// forgetful keeps marks.Admission from learning marks: it would refuse by itself what the flaw lets in. Admission does not
// learn unconfirmed marks.
type forgetful struct{ marks.Store }

// Register is the real one.
func (f forgetful) Register(ctx context.Context, s marks.Session, claims []fence.Claim) (marks.Registration, error) {
	st, err := f.Store.Register(ctx, s, claims)
	st.Mark = marks.Mark{Resource: st.Mark.Resource, Confirmed: st.Mark.Confirmed}
	return st, err
}

// Marks are the real ones, unconfirmed.
func (f forgetful) Marks(ctx context.Context, only ...fence.Resource) ([]marks.Mark, error) {
	marks, err := f.Store.Marks(ctx, only...)
	for i := range marks {
		marks[i].Confirmed = false
	}
	return marks, err
}

// refused is the refusal that err is, or nil: then the database could not be asked.
func refused(err error) *fence.Refusal {
	var r *fence.Refusal
	errors.As(err, &r)
	return r
}
