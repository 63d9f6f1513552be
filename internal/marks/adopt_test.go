package marks

import (
	"context"
	"errors"
	"testing"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/refusal"
)

// raised is a store whose mark waiting leaders raise after its adoption, and once more.
type raised struct {
	Store
	marks   []fence.Token // at each Revoke
	revoked []fence.Token
}

func (r *raised) Revoke(_ context.Context, _ SessionID, c fence.Claim) (int, error) {
	mark := r.marks[0]
	r.marks = r.marks[1:]
	if c.Token < mark {
		return 0, &fence.Refusal{Reason: fence.ErrStale, Claim: c, Mark: mark}
	}
	r.revoked = append(r.revoked, c.Token)
	return 1, nil
}

func TestAnAdoptionEndsOlderSessionsAlsoIfTheMarkWasRaisedSince(t *testing.T) {
	s := &raised{marks: []fence.Token{164, 170, 170}}
	if err := EndOlder(t.Context(), s, fence.Claim{Resource: "orders"}); err != nil {
		t.Fatal(err)
	}
	if len(s.revoked) != 1 || s.revoked[0] != 170 {
		t.Errorf("revoked under %v", s.revoked)
	}
}

type unrevoked struct{ Store }

func (unrevoked) Revoke(context.Context, SessionID, fence.Claim) (int, error) {
	return 0, refusal.Unrevoked(fence.Claim{Resource: "orders"}, "one session", nil)
}

func TestAnAdoptionSaysThatOlderSessionsLive(t *testing.T) {
	err := EndOlder(t.Context(), unrevoked{}, fence.Claim{Resource: "orders"})
	if !errors.Is(err, fence.ErrUnrevoked) {
		t.Errorf("got %v", err)
	}
}
