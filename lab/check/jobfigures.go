package check

import (
	"slices"

	"github.com/ringfence/ringfence/lab/history"
)

func (r *run) jobFigures(lives map[string]*life) *JobFigures {
	figures := &JobFigures{ByWorker: map[string]int{}}
	for _, l := range lives {
		if l.submitted != nil {
			figures.Submitted++
		}
		if l.end != nil && l.end.State == history.JobDone {
			figures.Done++
		}
		if l.end != nil {
			figures.Rounds += int(l.end.Round)
		}
		figures.Shared += len(l.returned)
		for _, o := range l.steps {
			switch {
			case o.State == history.JobAssigned && o.ok():
				figures.Assignments++
				figures.ByWorker[o.worker]++
			case o.State == history.JobAssigned && o.Outcome == history.Unknown:
				figures.Unanswered++
			case o.State == history.JobCancelled && o.ok():
				figures.Cancelled++
			case l.revives(o) && !o.creates():
				figures.Retried++
			case o.State == history.JobWaiting && o.ok() && !o.creates() && (o.Token == 0 || l.takesBack(o)):
				figures.TakenBack++ // a try that fails names its term
			case l.overtaken(o) != nil:
				figures.Late++
				if o.ok() {
					figures.LateTaken++
				}
			}
		}
	}
	return figures
}

// reruns counts the terms in which a job ran again: changes of its leader.
func (r *run) reruns() (n int) {
	terms := map[string][]age{}
	for _, t := range r.terms.Events {
		if t.State != history.Ready || t.Key == "" || slices.Contains(terms[t.Key], t.Age) {
			continue
		}
		if terms[t.Key] = append(terms[t.Key], t.Age); len(terms[t.Key]) > 1 {
			n++
		}
	}
	return n
}

// jobsCovered: there were jobs, some were taken back from their worker, and it tried to complete
// some all the same.
func (r *run) jobsCovered(f *findings, figures *Figures) {
	j := figures.Jobs
	for _, one := range []struct {
		what      string
		got, want int
	}{
		{"submissions were acknowledged", j.Submitted, r.expect.Jobs},
		{"times a job was taken back from a worker", j.TakenBack, r.expect.TakenBack},
		{"completions were tried under an attempt that was over", j.Late, r.expect.Late},
		{"assignments were not answered", j.Unanswered, r.expect.Unanswered},
		{"times a job was cancelled", j.Cancelled, r.expect.Cancelled},
		{"times a job was retried", j.Retried, r.expect.Retried},
		{"submissions returned a job that was there", j.Shared, r.expect.Shared},
		{"rounds of jobs have ended", j.Rounds, r.expect.Rounds},
	} {
		if one.got < one.want {
			f.doubt("%d %s; a run counts from %d on", one.got, one.what, one.want)
		}
	}
}

// fewTakenBack: jobs are not taken back more often than the faults explain.
func (r *run) fewTakenBack(f *findings, figures *Figures) {
	if most := r.expect.MostTakenBack; most > 0 && figures.Jobs != nil &&
		figures.Jobs.TakenBack > most {
		f.atRun("expect", 0, "", "jobs were taken back %d times; the scenario allows %d",
			figures.Jobs.TakenBack,
			most)
	}
}

// spread: each worker gets its share of the assignments.
func (r *run) spread(f *findings) {
	if r.expect.Spread == 0 || !r.aboutJobs() {
		return
	}
	j := r.jobFigures(r.lives())
	for worker, n := range j.ByWorker {
		if share := j.Assignments / len(j.ByWorker); 100*n < r.expect.Spread*share {
			f.atRun("expect", 0, worker, "%s has got %d of %d assignments to %d workers; each must have "+
				"%d%% of an equal share", worker, n, j.Assignments, len(j.ByWorker), r.expect.Spread)
		}
	}
}
