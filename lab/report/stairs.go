package report

import (
	"slices"

	"github.com/ringfence/ringfence/lab/history"
)

// stair shows how the mark of one store rose, as far as processes know: with the first
// acknowledgement under each token.
type stair struct {
	Store string `json:"store"`
	Steps []rise `json:"steps"`
}

type rise struct {
	At    float64 `json:"at"`
	Token int     `json:"token"` // rank
}

// makeStairs also finds the operations that were sent under a token that was already stale.
func (d *reading) makeStairs() {
	newest, steps := map[string]history.Age{}, map[string][]rise{}
	for _, e := range d.events {
		age := d.history.AgeOf(e.Process, e.Token, e.At)
		switch {
		case e.Kind == history.Invoke && e.Token > 0 && newest[e.Store].Newer(age):
			d.byOp[e.Op].Behind = true
		case e.Kind == history.Return && e.Outcome == history.OK && age.Newer(newest[e.Store]):
			newest[e.Store] = age
			steps[e.Store] = append(steps[e.Store], rise{d.ms(e.At), d.rankOf(e.Token)})
		}
	}
	d.Stairs = []stair{}
	for store, s := range steps {
		d.Stairs = append(d.Stairs, stair{store, s})
	}
	slices.SortFunc(d.Stairs, func(a, b stair) int { return compareNames(a.Store, b.Store) })
}
