package takeover

import (
	"context"
	"sync"
)

// direct is the same Postgres with sessions that it admits itself. There are no guards: the first
// session under a token raises the mark before it logs in.
type direct struct {
	*postgres

	mu     sync.Mutex
	raised int64
}

func (d *direct) open(ctx context.Context, _ int, token int64, writes bool) (session, error) {
	if err := d.raise(ctx, token); err != nil {
		return nil, err
	}
	return open(ctx, d.SessionURL(token), token, writes)
}

func (d *direct) raise(ctx context.Context, token int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if token <= d.raised {
		return nil
	}
	err := d.RaiseDirectly(ctx, token)
	if err == nil {
		d.raised = token
	}
	return err
}

func (d *direct) check(ctx context.Context, older []session) error {
	return check(ctx, d.SessionsAdminURL(), older)
}
