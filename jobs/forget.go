package jobs

import (
	"slices"

	"github.com/ringfence/ringfence/fence"
)

// forgetElections deletes what is left of the elections for finished jobs with resources of their own,
// before the jobs are forgotten.
func (a *assigner) forgetElections(ids []ID) error {
	f, forgets := a.q.at.(fence.Forgetter)
	if !forgets {
		return nil
	}
	for some := range slices.Chunk(ids, chunk) {
		var all []fence.Resource
		for _, id := range some {
			all = append(all, ownResource(id))
		}
		if err := f.Forget(a.ctx, all...); err != nil {
			return err
		}
	}
	return nil
}
