package marks

import (
	"maps"

	"github.com/ringfence/ringfence/fence"
)

// Led returns, for each election that this guard follows, whether somebody leads, as the coordinator has said last.
// An election of which it has not said anything yet is missing.
func (f *Follower) Led() map[fence.Resource]bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.led)
}

// elected records whether somebody leads.
func (f *Follower) elected(r fence.Resource, led bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.led == nil {
		f.led = make(map[fence.Resource]bool)
	}
	f.led[r] = led
}
