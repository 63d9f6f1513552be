package journaltest

import (
	"io"
	"testing"

	"github.com/ringfence/ringfence/checkpoint"
)

// Journal is a journal that can be closed.
type Journal interface {
	checkpoint.Journal
	io.Closer
}

// Fixture is a fresh place in a coordinator, with its elections and checkpoints.
type Fixture struct {
	*Leaders
	Open   func() Journal // opens a journal, as another process would
	Hand   Hand
	Closed error // what calls on a closed journal return
}

// Hand is an operator who reads and writes without a journal. Names need not be valid.
type Hand interface {
	// Put writes what is stored for a task, which need not exist, and returns its version.
	Put(task checkpoint.Name, data string) (version int64)
	Get(task checkpoint.Name) string
	Delete(task checkpoint.Name)
}

// Run tests a journal. It calls open once for each clause.
func Run(t *testing.T, open func(*testing.T) Fixture) {
	for _, c := range []struct {
		clause string
		holds  func(*testing.T, Fixture)
	}{
		{"a waiting candidate does not publish", waitingCandidate},
		{"a deposed leader without a successor is stale", deposedLeader},
		{"what is stored and is no checkpoint is corrupt", corrupt},
		{"an edit by hand is a new version", editByHand},
		{"bad names are refused", badNames},
		{"a closed journal says so", closed},
	} {
		t.Run(c.clause, func(t *testing.T) { c.holds(t, open(t)) })
	}
}
