package zookeeper

import (
	"context"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/ensemble"
)

// Confirm returns nil if the claim leads. Otherwise it returns a refusal of election.Leading, or
// ErrUnreachable if no server answered.
func (d *documents) Confirm(ctx context.Context, c fence.Claim) error {
	_, err := ensemble.Ask(ctx, d.client, func(
		ctx context.Context, s *ensemble.Session,
	) (string, error) {
		return d.leading.Confirm(ctx, s, c)
	})
	return err
}

// candidate returns the path of the claim's candidate. The claim led when it was first looked up.
func (d *documents) candidate(ctx context.Context, c fence.Claim) (string, error) {
	return ensemble.Ask(ctx, d.client, func(
		ctx context.Context, s *ensemble.Session,
	) (string, error) {
		return d.leading.Candidate(ctx, s, c)
	})
}

// gone refuses a claim whose candidate was not there any more when a transaction checked it.
func (d *documents) gone(ctx context.Context, c fence.Claim) error {
	_, err := ensemble.Ask(ctx, d.client, func(
		ctx context.Context, s *ensemble.Session,
	) (any, error) {
		return nil, d.leading.Gone(ctx, s, c)
	})
	return err
}

// stillThere refuses a claim whose candidate is gone.
func (d *documents) stillThere(
	ctx context.Context, s *ensemble.Session, c fence.Claim, znode string,
) error {
	stat, err := s.Stat(ctx, znode)
	if err == nil && stat == nil {
		return d.leading.Gone(ctx, s, c)
	}
	return d.client.Explain(znode, err)
}
