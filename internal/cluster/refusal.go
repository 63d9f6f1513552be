package cluster

import (
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/refusal"
)

// stale is the refusal of a claim whose candidate is gone.
func stale(c fence.Claim, leader *mvccpb.KeyValue) error {
	return refusal.Gone(c, candidate(leader), "lease has run out")
}

// notLeader is the refusal of a claim that has not led yet.
func notLeader(c fence.Claim, leader *mvccpb.KeyValue, why string) error {
	return refusal.NotElected(c, candidate(leader), why)
}

// otherIssuer is the refusal of a claim of another coordinator.
func (c *Client) otherIssuer(claim fence.Claim, issuer fence.Issuer) error {
	return refusal.OtherCoordinator(claim, "etcd", "etcd and prefix",
		fmt.Sprintf("%s at %s is %s", c.Prefix, c.Hosts, issuer))
}

// candidate is the candidate of a key, if there is one.
func candidate(leader *mvccpb.KeyValue) fence.Candidate {
	if leader == nil {
		return fence.Candidate{}
	}
	return Candidate(leader)
}
