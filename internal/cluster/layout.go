package cluster

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringfence/ringfence/fence"
)

// Errors about candidates' keys.
var (
	// ErrGone: the candidate's key was deleted, or is another key by now.
	ErrGone = errors.New("the candidate's key is gone")
	// ErrShared: two candidates were created in one transaction, which Ringfence never does.
	ErrShared = errors.New("two candidates share one create revision")
)

// Layout is where the keys are. The package documentation lists them.
type Layout struct{ Prefix string }

// IssuerKey is the key of the cluster's identity.
func (l Layout) IssuerKey() string { return l.Prefix + "/issuer" }

// Election is the prefix of the candidates' keys of a resource.
func (l Layout) Election(r fence.Resource) string {
	return l.Prefix + "/elections/" + string(r) + "/"
}

// CandidateKey is a key for a new candidate. No other candidate ever has it.
func (l Layout) CandidateKey(r fence.Resource, lease clientv3.LeaseID) string {
	return fmt.Sprintf("%s%016x.%s", l.Election(r), int64(lease), strings.ToLower(rand.Text()))
}

// Documents is the prefix of the keys of documents.
func (l Layout) Documents() string { return l.Prefix + "/documents/" }

// Holds compares a candidate's key with the one that was enrolled.
func Holds(key string, token fence.Token) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(key), "=", int64(token))
}

// ByToken lists an election, oldest token first.
var ByToken = []clientv3.OpOption{
	clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend),
}

// First returns the oldest of candidates that were listed by token: the leader, or nil. It needs
// the oldest two, to notice that they share a token.
func First(kvs []*mvccpb.KeyValue) (*mvccpb.KeyValue, error) {
	switch {
	case len(kvs) == 0:
		return nil, nil
	case len(kvs) > 1 && kvs[0].CreateRevision == kvs[1].CreateRevision:
		return nil, fmt.Errorf("%w: %s and %s; delete one of them", ErrShared, kvs[0].Key, kvs[1].Key)
	}
	return kvs[0], nil
}

// Value is what a candidate's key holds, for people and for Candidates.
type Value struct {
	Holder string `json:"holder"`
	Ready  bool   `json:"ready"` // the leader has acknowledged
}

func (v Value) String() string {
	b, _ := json.Marshal(v) // a string and a bool always encode
	return string(b)
}

// Candidate reads a key of an election. A value that we did not write still holds its place.
func Candidate(kv *mvccpb.KeyValue) fence.Candidate {
	var v Value
	if err := json.Unmarshal(kv.Value, &v); err != nil {
		v = Value{Holder: "(unreadable)"}
	}
	return fence.Candidate{
		Token: fence.Token(kv.CreateRevision), ID: path.Base(string(kv.Key)), Holder: v.Holder, Ready: v.Ready,
	}
}
