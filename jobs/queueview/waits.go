package queueview

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ringfence/ringfence/jobs/job"
)

// WhyWaiting says why a job that is due waits, as far as the workers and the jobs that they have
// show it, such as "no worker has the label gpu". It is "" for a job that does not wait, or is
// about to be assigned.
func WhyWaiting(s job.Status, workers []Worker, active []job.Status) string {
	switch {
	case s.State != job.Waiting:
		return ""
	case s.Paused:
		return "it is paused"
	case s.Due.After(time.Now()):
		return ""
	}
	runs := slices.DeleteFunc(slices.Clone(workers), func(w Worker) bool {
		return !slices.Contains(w.Kinds, s.Kind)
	})
	fit := slices.DeleteFunc(slices.Clone(runs), func(w Worker) bool {
		return !w.Accepts(s.Kind, s.Labels)
	})
	switch {
	case len(workers) == 0:
		return "there is no worker"
	case len(runs) == 0:
		return fmt.Sprintf("no worker runs jobs of kind %q", s.Kind)
	case len(fit) == 0:
		return missing(s.Labels, runs)
	}
	for _, a := range active {
		if s.Resource != "" && a.Resource == s.Resource && a.ID != s.ID {
			return fmt.Sprintf("job %s has its resource", a.ID)
		}
	}
	if !slices.ContainsFunc(fit, func(w Worker) bool {
		return !w.Stopping && w.Jobs < w.Capacity
	}) {
		return "every worker that may run it is busy or stops"
	}
	return ""
}

// missing says which labels none of these workers has.
func missing(labels []string, workers []Worker) string {
	lack := slices.DeleteFunc(slices.Clone(labels), func(l string) bool {
		return slices.ContainsFunc(workers, func(w Worker) bool {
			return slices.Contains(w.Labels, l)
		})
	})
	switch len(lack) {
	case 0:
		return "no worker has all of the labels " + strings.Join(labels, ", ")
	case 1:
		return "no worker has the label " + lack[0]
	}
	return "no worker has the labels " + strings.Join(lack, ", ")
}
