package page

import (
	"time"

	"github.com/ringfence/ringfence/fence"
)

// refusalsShown is how many rows of refusals the page shows.
const refusalsShown = 100

// Refusal is one or more refusals of a client under one token, for one reason.
type Refusal struct {
	Store    string         `json:"store"`
	Database string         `json:"database"`
	Client   string         `json:"client"` // the last one
	Resource fence.Resource `json:"resource"`
	Token    fence.Token    `json:"token"` // 0: none was claimed
	Mark     fence.Token    `json:"mark"`  // 0: not known
	Reason   string         `json:"reason"`
	Message  string         `json:"message"`
	At       time.Time      `json:"at"` // the last one
	Times    int            `json:"times"`
}

// refusalsNow returns the refusals that the store's audit remembers.
func (s *store) refusalsNow() (all []Refusal) {
	for _, r := range s.Refusals() {
		all = append(all, Refusal{
			Store: s.Name, Database: r.Database, Client: short(r.Claim.Holder), Resource: r.Claim.Resource, Token: r.Claim.Token,
			Mark: r.Mark, Reason: r.Reason, Message: short(r.Text), At: r.At, Times: r.Count,
		})
	}
	return all
}
