// Package elections has the table of coordinators for tests. A test that has to hold for each of
// them runs on all of Coordinators, and names none.
//
//	for name, coordinator := range elections.Coordinators {
//		t.Run(name, func(t *testing.T) { test(t, coordinator.Shared(t)) })
//	}
package elections

import (
	"context"
	"testing"

	"github.com/ringfence/ringfence/fence"
)

// Coordinators are all of them, by name. A new one is an entry here, and a file such as etcd.go.
var Coordinators = map[string]Coordinator{
	"zookeeper": {
		Shared: sharedZooKeeper, Own: ownZooKeeper, Failing: failingZooKeeper,
		Restored: map[string]func(testing.TB) Restored{
			"a server": restoredZooKeeper, "an ensemble": restoredEnsemble,
		},
	},
	"etcd": {
		Shared: sharedEtcd, Own: ownEtcd, Failing: failingEtcd,
		Restored: map[string]func(testing.TB) Restored{"a snapshot": restoredEtcd},
	},
	"postgres": {
		Shared: sharedPostgres, Own: ownPostgres, Failing: failingPostgres,
	},
}

// Coordinator is a kind of server that elections are held in.
type Coordinator struct {
	// Shared returns the URL of elections for this test alone, in the server that all tests share.
	Shared func(t testing.TB) (url string)
	// Own starts a server for this test only.
	Own func(t testing.TB) (url string, server Pausable)
	// Failing is one that a test may have fail.
	Failing func(t testing.TB) Failing
	// Restored are the ways back to a backup after which it gives out numbers a second time, by name.
	// None if no such way is known.
	Restored map[string]func(t testing.TB) Restored
}

// Pausable is a server that a test may pause.
type Pausable interface {
	Pause() error
	Resume() error
}

// Failing is a coordinator that can fail.
type Failing struct {
	Server string                    // address
	URL    func(relay string) string // of the coordinator behind a relay
	Deny   func(yes bool)            // access, to what the programs use; called once for each relay
}

// Restored is a coordinator that can go back to a backup.
type Restored struct {
	URL    string
	Backup func(context.Context) error
	// Restore kills it, puts the backup in its place and starts it again.
	Restore func(context.Context) error
	// Connect returns a function that uses up one number, and returns it.
	Connect func(testing.TB) (count func(context.Context) (fence.Token, error))
}
