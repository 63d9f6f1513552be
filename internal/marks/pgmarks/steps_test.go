package pgmarks

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
)

// identify queries a connection for its session, as a guard does.
func identify(ctx context.Context, c *pgx.Conn) (marks.SessionID, error) {
	var answer string
	if err := c.QueryRow(ctx, IdentityQuery).Scan(&answer); err != nil {
		return marks.SessionID{}, err
	}
	i, err := ParseIdentity(answer)
	return i.SessionID, err
}

// raiseTo raises the mark to a claim, which is confirmed if it is not below the mark.
func raiseTo(ctx context.Context, s *Store, c fence.Claim) (marks.Mark, error) {
	return s.Raise(ctx, marks.SessionID{}, c,
		func(_ context.Context, m marks.Mark) (fence.Claim, error) {
			m.Confirmed = true
			return marks.Unverified{}.Confirm(ctx, c, m)
		})
}
