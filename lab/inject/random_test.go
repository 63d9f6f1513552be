package inject

import (
	"slices"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/lab/scenario"
)

func TestARandomMixIsTheSameForTheSameSeed(t *testing.T) {
	draw := func() (all []string) {
		r, _ := scripted()
		for range 30 {
			all = append(all, r.draw().String(), r.drawServer("redis").String())
		}
		return all
	}
	a, b := draw(), draw()
	if !slices.Equal(a, b) {
		t.Errorf("%q\n%q", a, b)
	}
	for i := 1; i < len(a); i += 2 {
		if !strings.HasSuffix(a[i], " postgres") {
			t.Errorf("within a fault of Redis: %s", a[i])
		}
	}
}

func TestAMixOnThePathSQLHasOnlyItsFaults(t *testing.T) {
	r, _ := scripted()
	r.Topology.Route = scenario.SQL
	drawn := map[string]bool{}
	for range 200 {
		f := r.draw()
		if !f.OverSQL() {
			t.Fatalf("%s", f)
		}
		drawn[f.String()] = true
	}
	if len(drawn) < 5 {
		t.Errorf("only %v", drawn)
	}
}
