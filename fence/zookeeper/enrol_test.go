package zookeeper

import (
	"errors"
	"path"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/ensemble/election"
	"github.com/ringfence/ringfence/internal/ensemble/ensembletest"
	"github.com/ringfence/ringfence/internal/servers/serverstest"
)

func TestAnotherSessionsZnodeIsNotAdopted(t *testing.T) {
	ensemble := serverstest.SharedZooKeeper(t).Addr()
	c := openFor(t, "zk://"+ensemble+"/adopt", 50*time.Second)
	if err := win(t, c, "orders", "a").Resign(t.Context()); err != nil { // makes the election
		t.Fatal(err)
	}
	s, err := c.client.NewSession(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	own := &enrolment{s: s, dir: c.dir("orders"), id: election.NewGUID()}
	foreign := path.Join(own.dir, own.id.NamePrefix()+"0000000001")
	admin := ensembletest.Connect(t, ensemble)
	_, err = admin.Create(foreign, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	if err != nil {
		t.Fatal(err)
	}
	if err := own.recover(t.Context(), 0); err != nil || own.name != "" {
		t.Errorf("recover = %v and took %q", err, own.name)
	}
	for range 2 { // two znodes of our own, as after a late create: the older one counts
		if err := own.create(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	younger := own.name
	if err := own.recover(t.Context(), 0); err != nil || own.name >= younger {
		t.Errorf("recover = %v and took %q; the younger is %q", err, own.name, younger)
	}
	stat, err := s.Stat(t.Context(), own.path())
	if err != nil || stat == nil {
		t.Fatal(stat, err)
	}
	own.token = fence.Token(stat.Czxid)
	if err := own.prove(t.Context()); err != nil {
		t.Errorf("prove: %v", err)
	}
	b := &backing{own}
	if err := b.Acknowledge(t.Context()); err != nil {
		t.Errorf("acknowledge: %v", err)
	}
	if err := b.Acknowledge(t.Context()); err != nil {
		t.Errorf("acknowledge again: %v", err)
	}
	own.token++
	if err := own.prove(t.Context()); !errors.Is(err, errGone) {
		t.Errorf("prove with another czxid: %v", err)
	}
}

// No goroutine keeps the term here; it would end the session.
func TestAnAcknowledgementNeedsItsCandidate(t *testing.T) {
	ensemble := serverstest.SharedZooKeeper(t).Addr()
	admin := ensembletest.Connect(t, ensemble)
	c := openFor(t, "zk://"+ensemble+"/acknowledge", 20*time.Second)
	s, err := c.client.NewSession(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	own, err := c.enrol(t.Context(), s, "orders", "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := admin.Delete(own.path(), -1); err != nil {
		t.Fatal(err)
	}
	if err := (&backing{own}).Acknowledge(t.Context()); !errors.Is(err, fence.ErrDeposed) {
		t.Errorf("acknowledge without a candidate returned %v", err)
	}
	if there, _, err := admin.Exists(path.Join(own.dir, election.LeaderName)); there || err != nil {
		t.Errorf("the acknowledgement exists: %v, %v", there, err)
	}
}
