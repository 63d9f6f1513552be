package fence

import "context"

// Forgetter is a Coordinator that keeps something of an election without candidates.
type Forgetter interface {
	// Forget deletes what is left of those of these elections that have no candidates, and nothing of
	// the others. Tokens of the resources rise all the same, so earlier ones never lead again. After an
	// error some may be left. Errors: as Elector.Depose.
	Forget(ctx context.Context, rs ...Resource) error
}
