package fence

import "errors"

// Outcomes of a write that was not answered. The errors of documents, checkpoint and
// store/redisstore that say so match one of these two, and never both. A Refusal says that nothing
// was written, unless the same error matches ErrUnknown, too.
var (
	// ErrUnknown: the answer was lost. The write may have landed, or may land later. Look before you
	// repeat it.
	ErrUnknown = errors.New("the answer was lost")
	// ErrNotDone: the store or coordinator was out of reach or busy. Nothing has landed, and nothing
	// will. Try again.
	ErrNotDone = errors.New("nothing was done")
)
