package traffic

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/jobs/job"
	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/record"
	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
)

// The lab's jobs.
const (
	JobGroup = history.JobGroup
	JobKind  = "settle"
	// Assigner is the election of the worker that assigns jobs.
	Assigner = history.Assigner
)

// JobPayload is the input of a job.
type JobPayload struct {
	Steps int `json:"steps"`
	Fails int `json:"fails,omitempty"` // so many tries of a round fail after the first step
}

const (
	// jobsAhead is how many unfinished jobs there are for each worker: more than it runs at once.
	jobsAhead = 7
	// sharedResources is how many resources are shared by a quarter of the jobs.
	sharedResources = 6

	submitTime = 30 * time.Second // for one submission, or another call
	demandTime = 10 * time.Minute // for as many jobs as the scenario demands, once the faults are over
	finishTime = 2 * time.Minute  // for all jobs, once nothing is submitted any more
)

// Load is the jobs of a scenario.
type Load struct {
	scenario.Scenario
	sys  system.System
	rec  *record.Recorder
	seed uint64
}

// New returns the jobs of a scenario, which go to the coordinator of a system.
func New(s scenario.Scenario, sys system.System, rec *record.Recorder, seed uint64) *Load {
	return &Load{s, sys, rec, seed}
}

// submitter hands the lab's jobs in, through one or more clients.
type submitter struct {
	*Load
	clients []*client
	rnd     *rand.Rand

	waits sync.WaitGroup // for the ends of jobs
	calls sync.WaitGroup // that cancel or retry jobs

	mu     sync.Mutex
	acked  map[job.ID]bool
	closed bool // no more calls
	repeat int  // how many jobs repeat
}

// While submits jobs while do runs, and waits for their ends.
func (l *Load) While(ctx context.Context, do func(context.Context) error) error {
	s := &submitter{Load: l, rnd: rand.New(rand.NewPCG(l.seed, 2)), acked: map[job.ID]bool{}}
	defer s.close()
	names := []string{"submitter"}
	for n := range l.Workload.Clients {
		names = append(names[:n], fmt.Sprintf("client-%d", n+1))
	}
	for _, name := range names {
		c, err := l.newClient(ctx, name)
		if err != nil {
			return err
		}
		s.clients = append(s.clients, c)
	}
	return s.while(ctx, do)
}

// close closes the clients.
func (s *submitter) close() {
	s.waits.Wait()
	s.calls.Wait()
	for _, c := range s.clients {
		c.at.Close()
	}
}

func (s *submitter) while(ctx context.Context, do func(context.Context) error) error {
	all, abandon := context.WithCancel(ctx)
	defer abandon()
	disturbed, stop := context.WithCancel(all)
	defer stop()
	var submitting sync.WaitGroup
	submitting.Go(func() { s.submitAll(all, disturbed) })
	err := do(ctx)
	stop()
	if err != nil {
		abandon()
	}
	submitting.Wait()
	s.endCalls()
	if err != nil {
		return err
	}
	return s.finish(ctx)
}

// submitAll submits jobs until disturbed ends, and then more until there are as many as the
// scenario demands.
func (s *submitter) submitAll(ctx, disturbed context.Context) {
	few := func(seen *record.Seen) bool {
		return seen.Jobs.Unfinished() < jobsAhead*s.Topology.Workers
	}
	for disturbed.Err() == nil && s.rec.Wait(disturbed, "room for another job", few) == nil {
		s.submit(ctx)
	}
	bounded, cancel := context.WithTimeout(ctx, demandTime)
	defer cancel()
	for s.count() < s.Workload.Jobs && bounded.Err() == nil &&
		s.rec.Wait(bounded, "room for another job", few) == nil {
		s.submit(ctx)
	}
}

// count returns how many jobs were acknowledged.
func (s *submitter) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.acked)
}

// submit submits a job.
func (s *submitter) submit(ctx context.Context) {
	if len(s.clients) > 1 {
		s.race(ctx)
		return
	}
	if id, ok := s.clients[0].submit(ctx, s.draw()); ok {
		s.follow(ctx, id, plan{})
	}
}

// submission is a job as it is submitted.
type submission struct {
	payload JobPayload
	job.Spec
}

// fails reports whether no round of it succeeds.
func (j submission) fails() bool { return j.payload.Fails > j.Retries }

// draw draws a job that succeeds.
func (s *submitter) draw() submission {
	j := submission{payload: JobPayload{Steps: 2 + s.rnd.IntN(5)}}
	if s.Random && s.rnd.IntN(10) == 0 {
		j.payload.Fails = 1 + s.rnd.IntN(2)
	}
	j.Spec = job.Spec{
		Kind: JobKind, Priority: s.rnd.IntN(3), Timeout: job.Duration(20 * time.Second),
		Retries: 100, Backoff: job.Duration(200 * time.Millisecond),
	}
	if s.rnd.IntN(4) == 0 {
		j.Resource = fence.Resource(fmt.Sprintf("merchant_%d", 1+s.rnd.IntN(sharedResources)))
	}
	return j
}

// follow waits for the end of a job that was acknowledged, and does what its plan says.
func (s *submitter) follow(ctx context.Context, id job.ID, p plan) {
	s.mu.Lock()
	known := s.acked[id]
	s.acked[id] = true
	s.mu.Unlock()
	if !known {
		s.waits.Go(func() { s.carryOut(ctx, id, p) })
	}
}

// await waits for a job's end, as its submitter would. A worker's word for it is not enough: one
// that is cut off may have published the end and never learn that.
func (s *submitter) await(ctx context.Context, id job.ID) (state job.State) {
	for ctx.Err() == nil {
		if end, err := s.clients[0].queue.Wait(ctx, id); err == nil {
			s.rec.JobEnded(string(id))
			return end.State
		}
		_ = system.Sleep(ctx, 100*time.Millisecond) // the coordinator is down
	}
	return ""
}

// finish waits until every job has ended. If one has not, the checker says so.
func (s *submitter) finish(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, finishTime)
	defer cancel()
	s.rec.Progress("%d jobs were submitted; waiting for their ends", s.count())
	cancelled := map[job.ID]bool{}
	for {
		open := 0
		err := s.clients[0].queue.List(bounded, func(now job.Status) error {
			if !now.State.Finished() {
				open++
			}
			if now.Every != "" && !now.State.Finished() && !cancelled[now.ID] {
				cancelled[now.ID] = s.clients[0].cancel(bounded, now.ID)
			}
			return nil
		})
		if err == nil && open == 0 {
			return nil
		}
		if system.Sleep(bounded, 250*time.Millisecond) != nil {
			s.rec.Note("lab", fmt.Sprintf("%d jobs have not ended within %v: %v", open, finishTime, err))
			return ctx.Err()
		}
	}
}

// Collect records what the coordinator holds about jobs.
func (l *Load) Collect(ctx context.Context) error {
	c, err := l.newClient(ctx, "")
	if err != nil {
		return err
	}
	defer c.at.Close()
	err = c.queue.List(ctx, func(s job.Status) error {
		l.rec.Add(history.Event{
			Kind: history.Job, Key: string(s.ID), State: history.State(s.State), Attempt: s.Attempt,
			Round: int64(s.Rounds), Token: s.Token, Text: firstLine(s.Error),
		})
		return nil
	})
	return errors.Join(err, c.collectLeftOvers(ctx))
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// collectLeftOvers records the documents that should be gone when all jobs have ended.
func (c *client) collectLeftOvers(ctx context.Context) error {
	root := "jobs/" + JobGroup + "/"
	folders := []string{root + "waiting", root + "cancel", root + "unique"}
	workers, err := c.at.Documents().Names(ctx, root+"workers")
	for _, w := range workers {
		folders = append(folders, root+"assigned/"+w)
	}
	for _, folder := range folders {
		names, wrong := c.at.Documents().Names(ctx, folder)
		err = errors.Join(err, wrong)
		for _, name := range names {
			c.rec.Add(history.Event{
				Kind: history.Job, State: history.LeftOver, Text: folder + "/" + name,
			})
		}
	}
	return err
}
