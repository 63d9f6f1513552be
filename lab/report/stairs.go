package report

import (
	"slices"

	"github.com/ringfence/ringfence/fence"
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

// markOf is one mark: that of a resource in a store.
type markOf struct {
	store    string
	resource fence.Resource
}

// makeStairs also finds the operations that were sent under a token that was already stale.
func (d *reading) makeStairs() {
	newest, steps := map[markOf]history.Age{}, map[string][]rise{}
	for _, e := range d.events {
		if e.Do.AboutJobs() {
			continue
		}
		age := d.history.AgeOf(e.Process, e.Token, e.At)
		mark := markOf{e.Store, e.Resource}
		switch {
		case e.Kind == history.Invoke && e.Token > 0 && newest[mark].Newer(age):
			d.byOp[e.Op].Behind = true
		case e.Kind == history.Return && e.Outcome == history.OK && age.Newer(newest[mark]):
			newest[mark] = age
			steps[e.Store] = append(steps[e.Store], rise{d.ms(e.At), d.rankOf(e.Token)})
		}
	}
	d.Stairs = []stair{}
	for store, s := range steps {
		d.Stairs = append(d.Stairs, stair{store, s})
	}
	slices.SortFunc(d.Stairs, func(a, b stair) int { return compareNames(a.Store, b.Store) })
}
