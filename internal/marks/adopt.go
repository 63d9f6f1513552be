package marks

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/fence"
)

// EndOlder is the second half of Adopt, after the mark was adopted: it ends every session that is
// not under the mark. A waiting leader may have raised the mark since. Then EndOlder ends what is
// older than that, because the leader may have stopped before it did so itself.
func EndOlder(ctx context.Context, s Store, adopted fence.Claim) error {
	for c := adopted; ; {
		_, err := s.Revoke(ctx, SessionID{}, c)
		switch r, refused := errors.AsType[*fence.Refusal](err); {
		case err == nil:
			return nil
		case refused && r.Reason == fence.ErrStale && r.Mark > c.Token:
			c.Token = r.Mark
		default:
			return fmt.Errorf("the mark of %q is adopted, but its older sessions still live: %w",
				c.Resource, err)
		}
	}
}
