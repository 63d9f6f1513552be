package assigner

import (
	"maps"
	"slices"
)

// readOffers reads the offers of members that are documents.
func (a *assigner) readOffers() error {
	a.mu.Lock()
	all := slices.Collect(maps.Values(a.view.members))
	a.mu.Unlock()
	if err := a.q.Offered(a.ctx, all, a.offers); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range all {
		if _, there := a.view.members[m.ID]; there {
			a.view.members[m.ID] = m
		}
	}
	return nil
}
