package local

import (
	"testing"

	"github.com/ringfence/ringfence/fence/zookeeper"
	"github.com/ringfence/ringfence/lab"
)

func TestWipeMakesAnotherCoordinator(t *testing.T) {
	s, _ := built(t, nil)
	ctx := limited(t)
	issuer := func() string {
		co, err := zookeeper.Open(ctx, s.Addresses().Coordinator, zookeeper.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer co.Close()
		is, err := co.Issuer(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return string(is)
	}
	before := issuer()
	if again := issuer(); again != before {
		t.Fatalf("issuer %s became %s", before, again)
	}
	if err := s.Wipe(ctx); err != nil {
		t.Fatal(err)
	}
	if after := issuer(); after == before {
		t.Errorf("the wiped coordinator is still %s", after)
	}
}

func TestAnEnsembleHasALeaderThatCanBeKilled(t *testing.T) {
	s, _ := built(t, func(b *lab.Build) { b.Topology.CoordinatorServers, b.Topology.Guards = 3, 2 })
	ctx := limited(t)
	first, err := s.CoordinatorLeader(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Kill(ctx, first); err != nil {
		t.Fatal(err)
	}
	second, err := s.CoordinatorLeader(ctx)
	if err != nil || second == first {
		t.Fatalf("%s was killed, and %s leads: %v", first, second, err)
	}
	if err := s.Start(ctx, first); err != nil {
		t.Error(err)
	}
	if n := len(s.links[ends{"guard-2", "coordinator"}]); n != 3 {
		t.Errorf("guard-2 has %d links to the coordinator", n)
	}
}
