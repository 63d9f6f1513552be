package queueview

import (
	"testing"
	"time"

	"github.com/ringfence/ringfence/jobs/job"
)

func TestWhyAJobWaits(t *testing.T) {
	due := job.Status{ID: "a", State: job.Waiting, Kind: "k", Labels: []string{"gpu", "eu"},
		Resource: "r"}
	worker := func(kind string, jobs int, labels ...string) Worker {
		return Worker{Kinds: []string{kind}, Labels: labels, Capacity: 2, Jobs: jobs}
	}
	with := func(change func(*job.Status)) job.Status { s := due; change(&s); return s }
	other := []job.Status{{ID: "b", Resource: "r"}}
	both := worker("k", 1, "eu", "gpu")
	for _, c := range []struct {
		s       job.Status
		workers []Worker
		active  []job.Status
		want    string
	}{
		{due, nil, nil, "there is no worker"},
		{due, []Worker{worker("other", 0, "gpu", "eu")}, nil, `no worker runs jobs of kind "k"`},
		{due, []Worker{worker("k", 0), worker("other", 0, "gpu")}, nil, "no worker has the " +
			"labels gpu, eu"},
		{due, []Worker{worker("k", 0, "eu")}, nil, "no worker has the label gpu"},
		{due, []Worker{worker("k", 0, "eu"), worker("k", 0, "gpu")}, nil, "no worker has all of " +
			"the labels gpu, eu"},
		{due, []Worker{both}, other, "job b has its resource"},
		{due, []Worker{worker("k", 2, "eu", "gpu")}, nil, "every worker that may run it is busy " +
			"or stops"},
		{due, []Worker{both}, nil, ""},
		{with(func(s *job.Status) { s.Paused = true }), []Worker{both}, nil, "it is paused"},
		{with(func(s *job.Status) { s.Due = time.Now().Add(time.Hour) }), nil, nil, ""},
		{with(func(s *job.Status) { s.State = job.Done }), nil, nil, ""},
	} {
		if got := WhyWaiting(c.s, c.workers, c.active); got != c.want {
			t.Errorf("%+v waits since %q, want %q", c.s, got, c.want)
		}
	}
}
