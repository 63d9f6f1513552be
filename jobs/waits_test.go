package jobs

import (
	"testing"
	"time"
)

func TestWhyAJobWaits(t *testing.T) {
	due := Status{ID: "a", State: Waiting, Kind: "k", Labels: []string{"gpu", "eu"}, Resource: "r"}
	worker := func(kind string, jobs int, labels ...string) WorkerStatus {
		return WorkerStatus{Kinds: []string{kind}, Labels: labels, Capacity: 2, Jobs: jobs}
	}
	with := func(change func(*Status)) Status { s := due; change(&s); return s }
	other := []Status{{ID: "b", Resource: "r"}}
	both := worker("k", 1, "eu", "gpu")
	for _, c := range []struct {
		s       Status
		workers []WorkerStatus
		active  []Status
		want    string
	}{
		{due, nil, nil, "there is no worker"},
		{due, []WorkerStatus{worker("other", 0, "gpu", "eu")}, nil, `no worker runs jobs of kind "k"`},
		{due, []WorkerStatus{worker("k", 0), worker("other", 0, "gpu")}, nil, "no worker has the " +
			"labels gpu, eu"},
		{due, []WorkerStatus{worker("k", 0, "eu")}, nil, "no worker has the label gpu"},
		{due, []WorkerStatus{worker("k", 0, "eu"), worker("k", 0, "gpu")}, nil, "no worker has all of " +
			"the labels gpu, eu"},
		{due, []WorkerStatus{both}, other, "job b has its resource"},
		{due, []WorkerStatus{worker("k", 2, "eu", "gpu")}, nil, "every worker that may run it is busy " +
			"or stops"},
		{due, []WorkerStatus{both}, nil, ""},
		{with(func(s *Status) { s.Paused = true }), []WorkerStatus{both}, nil, "it is paused"},
		{with(func(s *Status) { s.Due = time.Now().Add(time.Hour) }), nil, nil, ""},
		{with(func(s *Status) { s.State = Done }), nil, nil, ""},
	} {
		if got := WhyWaiting(c.s, c.workers, c.active); got != c.want {
			t.Errorf("%+v waits since %q, want %q", c.s, got, c.want)
		}
	}
}
