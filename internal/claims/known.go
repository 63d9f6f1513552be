// Package claims remembers which claims were found to lead.
package claims

import (
	"sync"

	"github.com/ringfence/ringfence/fence"
)

// most bounds how many claims are remembered. One that is not costs a look-up at the coordinator.
const most = 10_000

// Known remembers the last claim of each resource that was found to lead, and its candidate. One look
// is enough: younger candidates queue behind a leader, so its claim leads as long as its candidate
// exists. Each change has to check that it does. The zero value knows nothing.
type Known struct {
	mu     sync.Mutex
	leader map[fence.Resource]leader
}

// leader is a claim that was found to lead. Its holder is empty: it is not part of who leads.
type leader struct {
	claim     fence.Claim
	candidate string
}

// Candidate returns the candidate of a claim, if that is known.
func (k *Known) Candidate(c fence.Claim) (candidate string, known bool) {
	c.Holder = ""
	k.mu.Lock()
	defer k.mu.Unlock()
	l, known := k.leader[c.Resource]
	return l.candidate, known && l.claim == c
}

// Won tells that a claim was found to lead, with its candidate.
func (k *Known) Won(c fence.Claim, candidate string) {
	c.Holder = ""
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.leader) >= most || k.leader == nil {
		k.leader = map[fence.Resource]leader{}
	}
	k.leader[c.Resource] = leader{c, candidate}
}

// Forget makes the leader of a resource unknown.
func (k *Known) Forget(r fence.Resource) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.leader, r)
}
