package campaign

import (
	"fmt"
	"sync"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
)

// CheckChange checks a change as far as that is possible without the coordinator. Its data may have
// so many bytes.
func CheckChange(c documents.Change, limit int) error {
	if err := c.Check(); err != nil {
		return err
	}
	if n := Size(c); n > limit {
		return fmt.Errorf("%w: the change has %d bytes, the limit is %d; nothing was sent",
			documents.ErrTooLarge, n, limit)
	}
	return nil
}

// Size returns how many bytes of data a change has.
func Size(c documents.Change) (n int) {
	for _, w := range c.Writes {
		n += len(w.Data)
	}
	return n
}

// SameVersion is for OnChange where no document has a version twice.
func SameVersion(now, before documents.Document) bool { return now.Version == before.Version }

// maxKnown bounds how many claims are remembered. One that is not costs a look-up at the
// coordinator.
const maxKnown = 10_000

// Known remembers the last claim of each resource that was found to lead, and its candidate. One
// look is enough: younger candidates queue behind a leader, so its claim leads as long as its
// candidate exists, under its issuer. Each change has to check both. The zero value knows nothing.
type Known struct {
	mu     sync.Mutex
	leader map[fence.Resource]leader
}

// leader is a claim that was found to lead. Its holder is empty: it is not part of who leads.
type leader struct {
	claim     fence.Claim
	candidate string
}

// Candidate returns the candidate of a claim that leads or has led: the one that is known, or else
// what find finds.
func (k *Known) Candidate(c fence.Claim, find func() (string, error)) (string, error) {
	c.Holder = ""
	k.mu.Lock()
	l := k.leader[c.Resource]
	k.mu.Unlock()
	if l.claim == c && l.candidate != "" {
		return l.candidate, nil
	}
	candidate, err := find()
	if err == nil {
		k.Won(c, candidate)
	}
	return candidate, err
}

// Won tells that a claim was found to lead, with its candidate.
func (k *Known) Won(c fence.Claim, candidate string) {
	c.Holder = ""
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.leader) >= maxKnown || k.leader == nil {
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
