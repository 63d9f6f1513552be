package local

import (
	"strings"
	"testing"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/zookeeper"
	"github.com/ringfence/ringfence/internal/coordinators"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
)

func TestWipeMakesAnotherCoordinator(t *testing.T) {
	s, _ := built(t, nil)
	ctx := limited(t)
	issuer := func() string {
		co, err := zookeeper.Open(ctx, s.Addresses().Coordinator, zookeeper.Options{})
		must.Succeed(t, err)
		defer co.Close()
		is, err := co.Issuer(ctx)
		must.Succeed(t, err)
		return string(is)
	}
	before := issuer()
	if again := issuer(); again != before {
		t.Fatalf("issuer %s became %s", before, again)
	}
	must.Succeed(t, s.Wipe(ctx))
	if after := issuer(); after == before {
		t.Errorf("the wiped coordinator is still %s", after)
	}
}

func TestAnEnsembleHasALeaderThatCanBeKilled(t *testing.T) {
	s, _ := built(t, func(b *system.Build) { b.Topology.CoordinatorServers, b.Topology.Guards = 3, 2 })
	ctx := limited(t)
	first, err := s.CoordinatorLeader(ctx)
	must.Succeed(t, err)
	must.Succeed(t, s.Kill(ctx, first))
	second, err := s.CoordinatorLeader(ctx)
	if err != nil || second == first {
		t.Fatalf("%s was killed, and %s leads: %v", first, second, err)
	}
	must.Report(t, s.Start(ctx, first))
	if n := len(s.links[ends{"guard-2", "coordinator"}]); n != 3 {
		t.Errorf("guard-2 has %d links to the coordinator", n)
	}
}

// win wins a term at the coordinator and gives it up.
func win(t *testing.T, s *System) fence.Token {
	t.Helper()
	ctx := limited(t)
	co, err := system.OpenCoordinator(ctx, s.Addresses().Coordinator, coordinators.Options{})
	must.Succeed(t, err)
	defer co.Close()
	term, err := co.Campaign(ctx, scenario.Resource, "test")
	must.Succeed(t, err)
	must.Succeed(t, term.Resign(ctx))
	return term.Token()
}

func TestALostServerIsReplacedByAnEmptyOne(t *testing.T) {
	for _, on := range []scenario.Elections{scenario.InZooKeeper, scenario.InEtcd} {
		t.Run(string(on), func(t *testing.T) {
			s, _ := built(t, func(b *system.Build) {
				b.Topology.CoordinatorServers, b.Topology.Elections = 3, on
			})
			ctx := limited(t)
			before := win(t, s)
			names := s.build.Topology.CoordinatorNames()
			for _, server := range names[:2] {
				must.Succeed(t, s.Lose(ctx, server))
				after := win(t, s) // two of three serve
				must.Succeed(t, s.Rebuild(ctx, server))
				if after <= before {
					t.Errorf("%s was lost, and %s follows %s", server, after, before)
				}
				before = after
			}
			// The two that were replaced are a majority, and know everything.
			must.Succeed(t, s.Kill(ctx, names[2]))
			if after := win(t, s); after <= before {
				t.Errorf("with replaced servers, %s follows %s", after, before)
			}
			if err := s.Lose(ctx, "postgres"); err == nil {
				t.Error("a server that is not the coordinator's was lost")
			}
		})
	}
}

func TestTheCoordinatorFailsOverToAStandbyThatLags(t *testing.T) {
	s, _ := built(t, func(b *system.Build) {
		b.Topology.Elections, b.Topology.Standby = scenario.InPostgres, true
	})
	ctx := limited(t)
	win(t, s)
	must.Succeed(t, s.Lag(ctx))
	lost := win(t, s)
	must.Succeed(t, s.Kill(ctx, "elections"))
	must.Succeed(t, s.Promote(ctx))
	if token := win(t, s); token <= lost {
		t.Errorf("after the failover %s follows %s", token, lost)
	}
	if !strings.Contains(s.Diagnose(), "elections-2:") {
		t.Error("the standby is missing in Diagnose")
	}
	other, _ := built(t, nil)
	if err := other.Promote(ctx); err == nil {
		t.Error("ZooKeeper has promoted a standby")
	}
}
