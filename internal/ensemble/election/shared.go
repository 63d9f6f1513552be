package election

import (
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/ensemble"
)

// ErrShared: two candidates have one czxid, because one multi request created both. Ours are
// created one by one, so another program did that.
var ErrShared = errors.New("two candidates have the same token")

// sharedLead returns an error if the first two of a queue have one token. Two that wait further
// back do no harm yet.
func sharedLead(dir string, queue []Entry) error {
	if len(queue) < 2 || queue[0].Token != queue[1].Token {
		return nil
	}
	return Shared(dir, queue[0].Token, queue[0].Name, queue[1].Name,
		"neither of them leads; delete both: two processes with one token cannot be fenced "+
			"from each other")
}

// Shared returns the error for two candidates with this token. now says what happens next.
func Shared(dir string, token fence.Token, one, other, now string) error {
	return fmt.Errorf("%w: one multi request created %s and %s in %s, so token %s belongs "+
		"to both; %s; "+
		"then stop the program that did it: each candidate needs a create request of its own",
		ErrShared, one, other, dir, token, now)
}

// Refused reports an error that retrying cannot fix.
func Refused(err error) bool {
	return ensemble.Denied(err) || errors.Is(err, ErrNotIssuer) || errors.Is(err, ErrShared)
}
