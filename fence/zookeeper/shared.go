package zookeeper

import (
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/fence"
)

// errShared: two candidates have one czxid, for one multi request created both. Ours are created one
// by one, so another program did that.
var errShared = errors.New("two candidates have the same token")

// sharedLead returns an error if the first two of a queue have one token. Two that wait do no harm yet.
func sharedLead(dir string, queue []entry) error {
	if len(queue) < 2 || queue[0].token != queue[1].token {
		return nil
	}
	return shared(dir, queue[0].token, queue[0].name, queue[1].name,
		"neither of them leads; delete both: two processes with one token cannot be fenced from each other")
}

func shared(dir string, token fence.Token, one, other, now string) error {
	return fmt.Errorf("%w: one multi request created %s and %s in %s, so token %s belongs to both; %s; "+
		"then stop the program that did it: each candidate needs a create request of its own",
		errShared, one, other, dir, token, now)
}
