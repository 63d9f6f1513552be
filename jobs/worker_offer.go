package jobs

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/group"
)

// offer is what a worker says about itself as a member of its group.
type offer struct {
	Capacity int      `json:"capacity"`
	Labels   []string `json:"labels,omitempty"`
	Kinds    []string `json:"kinds"`
	// At names the document that has the offer, if that is too long for a member.
	At string `json:"at,omitempty"`
}

// parseOffer reads what a member says about itself. A member that is no worker offers nothing.
func parseOffer(m group.Member) offer {
	var o offer
	if json.Unmarshal(m.Value, &o) != nil {
		return offer{}
	}
	o.Capacity = min(o.Capacity, MaxCapacity) // their sum must not overflow
	return o
}

// suits reports whether a worker that has room could run a job.
func (o offer) accepts(kind string, labels []string) bool {
	if !slices.Contains(o.Kinds, kind) {
		return false
	}
	for _, l := range labels {
		if !slices.Contains(o.Labels, l) {
			return false
		}
	}
	return true
}

// join makes a worker a member. An offer that is too long for that becomes a document first. Its
// name is a digest of the offer, so workers that offer the same share it. It stays: nobody can know
// that no worker is about to join with it.
func (q *Queue) join(ctx context.Context, name string, o offer) (*group.Membership, error) {
	value := encode(o)
	m, err := q.group.Join(name, value)
	if !errors.Is(err, fence.ErrBadHolder) {
		return m, err
	}
	sum := sha256.Sum256(value)
	at := digits.EncodeToString(sum[:])
	if err := q.create(ctx, q.paths.offer(at), value); err != nil {
		return nil, err
	}
	return q.group.Join(name, encode(offer{At: at}))
}

// offered puts offers that are documents in the place of what the members say. known keeps those
// that were read: none of them ever changes.
func (q *Queue) offered(ctx context.Context, all []group.Member, known map[string][]byte) error {
	for i, m := range all {
		at := parseOffer(m).At
		if at == "" {
			continue
		}
		if known[at] == nil {
			d, err := q.document(ctx, q.paths.offer(at))
			if err != nil {
				return err
			}
			known[at] = d.Data
		}
		all[i].Value = known[at]
	}
	return nil
}

// readOffers reads the offers of members that are documents.
func (a *assigner) readOffers() error {
	a.mu.Lock()
	all := slices.Collect(maps.Values(a.view.members))
	a.mu.Unlock()
	if err := a.q.offered(a.ctx, all, a.offers); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range all {
		if _, there := a.view.members[m.ID]; there {
			a.view.members[m.ID] = m
		}
	}
	return nil
}
