package records

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"

	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/fence/group"
	"github.com/ringfence/ringfence/jobs/internal/digits"
)

// Offer is what a worker says about itself as a member of its group.
type Offer struct {
	Capacity int      `json:"capacity"`
	Labels   []string `json:"labels,omitempty"`
	Kinds    []string `json:"kinds"`
	// At names the document that has the offer, if that is too long for a member.
	At string `json:"at,omitempty"`
}

// ParseOffer reads what a member says about itself. A member that is no worker offers nothing.
func ParseOffer(m group.Member) Offer {
	var o Offer
	if json.Unmarshal(m.Value, &o) != nil {
		return Offer{}
	}
	o.Capacity = min(o.Capacity, MaxCapacity) // their sum must not overflow
	return o
}

// suits reports whether a worker that has room could run a job.
func (o Offer) Accepts(kind string, labels []string) bool {
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

// Join makes a worker a member. An offer that is too long for that becomes a document first. Its
// name is a digest of the offer, so workers that offer the same share it. It stays: nobody can know
// that no worker is about to join with it.
func (q *Store) Join(ctx context.Context, name string, o Offer) (*group.Membership, error) {
	value := Encode(o)
	m, err := q.Group.Join(name, value)
	if !errors.Is(err, elector.ErrBadHolder) {
		return m, err
	}
	sum := sha256.Sum256(value)
	at := digits.Text(sum[:])
	if err := q.Create(ctx, q.Paths.offer(at), value); err != nil {
		return nil, err
	}
	return q.Group.Join(name, Encode(Offer{At: at}))
}

// Offered puts offers that are documents in the place of what the members say. known keeps those
// that were read: none of them ever changes.
func (q *Store) Offered(ctx context.Context, all []group.Member, known map[string][]byte) error {
	for i, m := range all {
		at := ParseOffer(m).At
		if at == "" {
			continue
		}
		if known[at] == nil {
			d, err := q.Document(ctx, q.Paths.offer(at))
			if err != nil {
				return err
			}
			known[at] = d.Data
		}
		all[i].Value = known[at]
	}
	return nil
}

// MaxCapacity is how many jobs a worker runs at once, at most. A higher capacity counts as this
// one.
const MaxCapacity = 1_000_000
