package record

import (
	"maps"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lab/history"
)

// Jobs is what was reported about jobs so far.
type Jobs struct {
	Assigner  string            // the worker that assigns, as it believes
	runs      map[string]jobRun // the last one of each job
	submitted map[string]bool   // acknowledged
	done      map[string]bool   // the submitter knows that it has ended
}

// jobRun is a term in which a job is run.
type jobRun struct {
	worker string
	token  fence.Token
	over   bool
	acked  int // writes
}

func newJobs() Jobs {
	return Jobs{
		runs: map[string]jobRun{}, submitted: map[string]bool{}, done: map[string]bool{},
	}
}

func (s *Jobs) take(worker string, e history.Event) {
	acked := e.Kind == history.Return && e.Outcome == history.OK
	switch {
	case acked && e.Do == history.Submit:
		s.submitted[e.Key] = true
	case acked && e.Do == history.Step && e.Resource != "":
		job := history.JobOf(e.Key)
		if run := s.runs[job]; run.token == e.Token {
			run.acked++
			s.runs[job] = run
		}
	case e.Kind == history.Term && e.Resource == history.Assigner:
		if e.State == history.Ready {
			s.Assigner = worker
		} else if s.Assigner == worker {
			s.Assigner = ""
		}
	case e.Kind == history.Term && e.Key != "":
		s.takeRun(worker, e)
	case e.Kind == history.Note && strings.HasPrefix(e.Text, history.Ended):
		s.ended(worker)
	}
}

func (s *Jobs) takeRun(worker string, e history.Event) {
	run := s.runs[e.Key]
	switch {
	case e.State == history.Ready:
		s.runs[e.Key] = jobRun{worker: worker, token: e.Token}
	case run.token == e.Token:
		run.over = true
		s.runs[e.Key] = run
	}
}

// ended takes note of the end of a worker's process.
func (s *Jobs) ended(worker string) {
	for job, run := range s.runs {
		if run.worker == worker {
			run.over = true
			s.runs[job] = run
		}
	}
	if s.Assigner == worker {
		s.Assigner = ""
	}
}

// Busiest returns the worker that runs the most jobs, "" if nobody runs any.
func (s *Jobs) Busiest() string {
	n := map[string]int{}
	for _, run := range s.runs {
		if !run.over {
			n[run.worker]++
		}
	}
	most := ""
	for _, w := range slices.Sorted(maps.Keys(n)) {
		if most == "" || n[w] > n[most] {
			most = w
		}
	}
	return most
}

// heldBy returns the jobs that these workers run, with the tokens.
func (s *Jobs) heldBy(workers []string) map[string]fence.Token {
	held := map[string]fence.Token{}
	for job, run := range s.runs {
		if !run.over && slices.Contains(workers, run.worker) {
			held[job] = run.token
		}
	}
	return held
}

// Unfinished is how many submitted jobs nobody has reported as ended.
func (s *Jobs) Unfinished() int {
	n := 0
	for job := range s.submitted {
		if !s.done[job] {
			n++
		}
	}
	return n
}
