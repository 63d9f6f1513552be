package flaw

import (
	"context"
	"errors"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
)

// loggedIn raises the mark only for a session that has logged in. It stands for a guard that does
// not expect a full server: if the older sessions fill it, their successor cannot log in. It also
// hides that the store can end older sessions before a raise (marks.Crowded).
type loggedIn struct{ marks.Store }

var errNoSession = errors.New("no session has logged in for which the mark would be raised")

// Raise fails without a newcomer.
func (l loggedIn) Raise(
	ctx context.Context, newcomer marks.SessionID, c fence.Claim, confirm marks.Confirm,
) (marks.Mark, error) {
	if newcomer == (marks.SessionID{}) {
		return marks.Mark{}, errNoSession
	}
	return l.Store.Raise(ctx, newcomer, c, confirm)
}
