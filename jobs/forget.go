package jobs

import "github.com/ringfence/ringfence/fence"

// forgetElection deletes what is left of the election for a job that has ended, if its resource is its
// own. It returns false if that has to be tried again, so the job is forgotten afterwards.
func (a *assigner) forgetElection(r record) bool {
	f, forgets := a.q.at.(fence.Forgetter)
	if !forgets || r.Resource != ownResource(r.ID) {
		return true
	}
	if err := f.Forget(a.ctx, r.Resource); err != nil {
		a.log.Warn("the election of a finished job cannot be deleted; trying again later",
			"job", string(r.ID), "error", err)
		return false
	}
	return true
}
