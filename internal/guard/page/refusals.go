package page

import (
	"cmp"
	"slices"
	"time"

	"github.com/ringfence/ringfence/fence"
)

// refusalsMost is how many refusals are kept.
const refusalsMost = 100

// Refusal is one or more refusals of the same token of a resource for the same reason.
type Refusal struct {
	Store    string         `json:"store"`
	Client   string         `json:"client"` // the last one
	Resource fence.Resource `json:"resource"`
	Token    fence.Token    `json:"token"` // 0: none was claimed
	Mark     fence.Token    `json:"mark"`  // 0: not known
	Reason   string         `json:"reason"`
	Message  string         `json:"message"`
	At       time.Time      `json:"at"` // the last one
	Times    int            `json:"times"`
}

func refusal(store string, c fence.Claim, r *fence.Refusal, at time.Time) Refusal {
	return Refusal{
		Store: store, Client: short(c.Holder), Resource: c.Resource, Token: c.Token, Mark: r.Mark,
		Reason: cmp.Or(r.Reason.String(), "error"), Message: short(r.Message), At: at, Times: 1,
	}
}

// refusals are the last refusals, the latest first.
type refusals []Refusal

// add puts a refusal first. One for the same reason goes into it: a client that tries again and
// again must not push out all others.
func (all *refusals) add(r Refusal) {
	i := slices.IndexFunc(*all, func(other Refusal) bool {
		return other.Store == r.Store && other.Resource == r.Resource && other.Token == r.Token &&
			other.Reason == r.Reason
	})
	switch {
	case i >= 0:
		r.Times += (*all)[i].Times
		*all = slices.Delete(*all, i, i+1)
	case len(*all) >= refusalsMost:
		*all = (*all)[:refusalsMost-1]
	}
	*all = slices.Insert(*all, 0, r)
}
