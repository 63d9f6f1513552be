package etcd

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringfence/ringfence/fence"
)

// layout is where the keys are. The package documentation lists them.
type layout struct{ prefix string }

// issuer is the key of the cluster's identity.
func (l layout) issuer() string { return l.prefix + "/issuer" }

// election is the prefix of the candidates' keys of a resource.
func (l layout) election(r fence.Resource) string {
	return l.prefix + "/elections/" + string(r) + "/"
}

// candidate is a key for a new candidate. No other candidate ever has it.
func (l layout) candidate(r fence.Resource, lease clientv3.LeaseID) string {
	return fmt.Sprintf("%s%016x.%s", l.election(r), int64(lease), strings.ToLower(rand.Text()))
}

// value is what a candidate's key holds, for people and for Candidates.
type value struct {
	Holder string `json:"holder"`
	Ready  bool   `json:"ready"` // the leader has acknowledged
}

func (v value) String() string {
	b, _ := json.Marshal(v) // a string and a bool always encode
	return string(b)
}

// candidateOf reads a key of an election. A value that we did not write still holds its place.
func candidateOf(kv *mvccpb.KeyValue) fence.Candidate {
	var v value
	if err := json.Unmarshal(kv.Value, &v); err != nil {
		v = value{Holder: "(unreadable)"}
	}
	return fence.Candidate{Token: fence.Token(kv.CreateRevision), Holder: v.Holder, Ready: v.Ready}
}
