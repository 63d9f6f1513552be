package zookeeper

import (
	"errors"
	"path"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/zookeeper/zookeepertest"
	"github.com/ringfence/ringfence/internal/test/electiontest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestAnotherSessionsZnodeIsNotAdopted(t *testing.T) {
	t.Parallel()
	ensemble := serverstest.SharedZooKeeper(t).Addr()
	c := openFor(t, "zk://"+ensemble+"/adopt", 50*time.Second)
	if err := electiontest.Win(t, c, "orders", "a").Resign(t.Context()); err != nil {
		// makes the election
		t.Fatal(err)
	}
	s, err := c.campaigns.Session(t.Context())
	must.Succeed(t, err)
	own := s.Candidate("orders", "a")
	foreign := path.Join(own.dir, own.id.namePrefix()+"0000000001")
	admin := zookeepertest.Connect(t, ensemble)
	_, err = admin.Create(foreign, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	must.Succeed(t, err)
	if err := own.recover(t.Context(), 0); err != nil || own.name != "" {
		t.Errorf("recover = %v and took %q", err, own.name)
	}
	for range 2 { // two znodes of our own, as after a late create: the older one counts
		must.Succeed(t, own.create(t.Context()))
	}
	younger := own.name
	own.name = ""
	if err := own.recover(t.Context(), 0); err != nil || own.name >= younger {
		t.Errorf("recover = %v and took %q; the younger is %q", err, own.name, younger)
	}
	stat, err := s.zk.Stat(t.Context(), own.path())
	if err != nil || stat == nil {
		t.Fatal(stat, err)
	}
	own.Enrolled(fence.Token(stat.Czxid))
	if err := own.prove(t.Context()); err != nil {
		t.Errorf("prove: %v", err)
	}
	ahead, err := own.predecessors(t.Context()) // deletes the younger one
	if err != nil || len(ahead) != 0 {
		t.Errorf("ahead is %+v, %v", ahead, err)
	}
	names, _, err := admin.Children(own.dir)
	if err != nil || len(names) != 2 || slices.Contains(names, younger) {
		t.Errorf("left are %q, %v", names, err)
	}
	if err := own.Acknowledge(t.Context()); err != nil {
		t.Errorf("acknowledge: %v", err)
	}
	if err := own.Acknowledge(t.Context()); err != nil {
		t.Errorf("acknowledge again: %v", err)
	}
	own.Enrolled(own.Token() + 1)
	if err := own.prove(t.Context()); !errors.Is(err, errGone) {
		t.Errorf("prove with another czxid: %v", err)
	}
}

// No beat confirms the candidate here; it would lose it.
func TestAnAcknowledgementNeedsItsCandidate(t *testing.T) {
	t.Parallel()
	ensemble := serverstest.SharedZooKeeper(t).Addr()
	admin := zookeepertest.Connect(t, ensemble)
	c := openFor(t, "zk://"+ensemble+"/acknowledge", 20*time.Second)
	s, err := c.campaigns.Session(t.Context())
	must.Succeed(t, err)
	own := s.Candidate("orders", "a")
	token, err := own.Enrol(t.Context())
	must.Succeed(t, err)
	own.Enrolled(token)
	must.Succeed(t, admin.Delete(own.path(), -1))
	if err := own.Acknowledge(t.Context()); !errors.Is(err, fence.ErrDeposed) {
		t.Errorf("acknowledge without a candidate returned %v", err)
	}
	if there, _, err := admin.Exists(path.Join(own.dir, leaderName)); there || err != nil {
		t.Errorf("the acknowledgement exists: %v, %v", there, err)
	}
}
