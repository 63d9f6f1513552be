package scenario

import (
	"slices"
	"testing"

	"github.com/ringfence/ringfence/lab/history"
)

func TestTheCatalogueIsComplete(t *testing.T) {
	names, rows := map[string]bool{}, map[int]bool{}
	for _, s := range Catalogue {
		if names[s.Name] || s.About == "" || s.Topology.Workers < 2 || s.Topology.Session == 0 {
			t.Errorf("%s is there twice, or lacks something", s.Name)
		}
		names[s.Name] = true
		for _, r := range s.Rows {
			rows[r] = true
		}
		for e, why := range s.NotOn {
			if !slices.Contains(AllElections, e) || why == "" || s.RunsOn(e) {
				t.Errorf("%s is not run with %q because %q", s.Name, e, why)
			}
		}
		if clogs := func(f Fault) bool { return f.Do == Clog }; s.has(clogs) != s.Topology.LogPipes {
			t.Errorf("%s clogs a log without a pipe, or has pipes for nothing", s.Name)
		}
		if sorts := func(f Fault) bool { return f.Do == SortAnew }; s.has(sorts) != s.Topology.OwnLocale {
			t.Errorf("%s sorts texts anew without a locale of its own, or has one for nothing", s.Name)
		}
		for _, f := range s.Faults {
			if s.RunsOn(InPostgres) && (f.Do == Lose || f.On == "coordinator follower") {
				t.Errorf("%s: %s with one server", s.Name, f)
			}
		}
	}
	for row := 1; row <= 55; row++ {
		if !rows[row] {
			t.Errorf("no scenario for row %d", row)
		}
	}
	for _, c := range Controls {
		if !names[c.Scenario] || len(c.By) == 0 || (c.seed == nil) == (c.change == nil) {
			t.Errorf("control %s has no scenario, nothing that catches it, or no bug", c.Name)
		}
	}
}

func TestSwappedTokensDiffer(t *testing.T) {
	all := []history.Event{
		{Kind: history.Evidence, Store: "redis", Token: 5},
		{Kind: history.Evidence, Store: "redis", Token: 5},
		{Kind: history.Evidence, Store: "postgres", Token: 7},
		{Kind: history.Evidence, Store: "redis", Token: 9},
	}
	if got := swapTokens(all); got[0].Token != 9 || got[3].Token != 5 || got[2].Token != 7 {
		t.Errorf("%+v", got)
	}
}
