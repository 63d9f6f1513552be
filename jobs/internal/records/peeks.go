package records

import (
	"context"
	"errors"
	"time"

	"github.com/ringfence/ringfence/fence/documents"
)

// A peek is a document that somebody creates to see what a running job has brought so far, and
// deletes once the job's worker has put the answer into it. So a job that nobody looks at costs
// nothing, and one that many look at costs a write for each look. The answer is a copy for people:
// no step of a job reads it, and nothing depends on it. A peek that is left behind is deleted by
// the assigner.

// AnnounceTimeout bounds how long a worker that stops tries to say so.
const AnnounceTimeout = 2 * time.Second

// EndPeek deletes a peek. If it cannot, the assigner does.
func (q *Store) EndPeek(ctx context.Context, at string) {
	ctx, cancel := context.WithTimeout(ctx, AnnounceTimeout)
	defer cancel()
	_ = Retry(ctx, func() error {
		_, err := q.Docs.Change(ctx, documents.Change{Writes: []documents.Write{documents.DeleteAny(at)}})
		if errors.Is(err, documents.ErrConflict) {
			return nil // it is gone
		}
		return err
	})
}
