package fence

import "context"

// Forgetter is a Coordinator that keeps something of an election without candidates.
type Forgetter interface {
	// Forget deletes what is left of an election that has no candidates, and nothing if it has some.
	// Tokens of the resource rise all the same, so earlier ones never lead again. Errors: as
	// Elector.Depose.
	Forget(ctx context.Context, r Resource) error
}
