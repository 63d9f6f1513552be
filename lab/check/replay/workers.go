package replay

import (
	"github.com/ringfence/ringfence/lab/history"
)

// workers judges elected and mine, which are about workers.
func (r *replay) workers(events []history.Event) {
	type won struct {
		worker string
		term   term
	}
	type version struct {
		job    string
		number int64
	}
	elected := map[won]bool{}
	bySQL := false              // one call wins and raises
	text := map[string]string{} // of an Invoke
	has := map[version]string{} // the worker that has the job
	var jobs []history.Event
	for _, e := range events {
		switch {
		case e.Kind == history.Run:
			bySQL = e.Header != nil && e.Header.Coordinator == "sql"
		case e.Kind == history.Term && e.Resource == "" &&
			(e.State == history.Won || e.State == history.Ready):
			elected[won{history.Worker(e.Process), term{token: e.Token}}] = true
		case e.Kind == history.Invoke && e.Do == history.Change:
			text[e.Op] = e.Text
		case e.Kind != history.Return || e.Outcome != history.OK:
		case e.Do == history.Change:
			has[version{e.Key, e.Made}] = text[e.Op]
			jobs = append(jobs, e)
		case e.Do == history.Raise && e.Resource == "" && !bySQL &&
			!elected[won{history.Worker(e.Process), term{token: e.Token}}]:
			r.breaks(Elected, e, "%s raised the mark to %s, and had not won that token", e.Process, e.Token)
		}
	}
	for _, e := range jobs {
		worker := has[version{e.Key, e.Version}]
		goesOn := e.State == history.JobRunning || e.State == history.JobDone
		if goesOn && worker != "" && worker != history.Worker(e.Process) {
			r.breaks(Mine, e, "%s made job %s %s, and %s had it", e.Process, e.Key, e.State, worker)
		}
	}
}
