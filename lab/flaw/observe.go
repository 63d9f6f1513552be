package flaw

import (
	"context"
	"log/slog"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
)

// observer checks as the real store does, logs what it would have refused, and admits everybody. It
// stands for a fence that was rolled out "in observe-only mode first" and never switched on. Marks
// are raised, so status looks right.
type observer struct {
	forgetful
	log *slog.Logger
}

// Register refuses a session only if the database cannot be reached.
func (o *observer) Register(
	ctx context.Context, s marks.SessionID, claims []fence.Claim,
) (marks.Registration, error) {
	st, err := o.forgetful.Register(ctx, s, claims)
	switch {
	case refused(err) != nil:
		o.log.Warn("would have been refused", "session", s.ID, "err", err)
		return marks.Registration{Next: marks.Admitted}, nil
	case err == nil && st.Next == marks.MustRevoke:
		o.log.Warn("would have ended older sessions first",
			"session", s.ID, "token", st.Claim.Token.String())
		st.Next = marks.Admitted
	}
	return st, err
}

// Raise raises, ignores a refusal, and keeps from the guard that there are older sessions.
func (o *observer) Raise(
	ctx context.Context, newcomer marks.SessionID, c fence.Claim, confirm marks.Confirm,
) (marks.Mark, error) {
	before, err := o.forgetful.Raise(ctx, newcomer, c, confirm)
	if refused(err) != nil {
		err = nil
	}
	before.Sessions = 0
	return before, err
}

// Revoke ends no session.
func (o *observer) Revoke(context.Context, marks.SessionID, fence.Claim) (int, error) {
	return 0, nil
}
