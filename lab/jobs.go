package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/ringfence/ringfence/documents"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/coordinators"
	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/lab/history"
)

// The lab's jobs.
const (
	JobGroup = "lab"
	JobKind  = "settle"
	// JobCapacity is how many jobs a worker runs at once.
	JobCapacity = 4
	// Assigner is the election of the worker that assigns jobs.
	Assigner fence.Resource = "jobs_" + JobGroup
)

// JobPayload is the input of a job.
type JobPayload struct {
	Steps int `json:"steps"`
	Fails int `json:"fails,omitempty"` // so many tries fail after the first step
}

const (
	// jobsAhead is how many unfinished jobs there are for each worker: more than it runs at once.
	jobsAhead = 7
	// sharedResources is how many resources are shared by a quarter of the jobs.
	sharedResources = 6

	submitTime = 30 * time.Second // for one submission
	finishTime = 2 * time.Minute  // for all jobs, once nothing is submitted any more
)

// client is a client of the lab's jobs. It is no worker, and no fault hits it.
type client struct {
	*run
	at    documents.Coordinator
	queue *jobs.Queue
	rnd   *rand.Rand
	sent  int
	acked int

	waits sync.WaitGroup // for the ends of jobs
}

// withJobs submits jobs while do runs, and waits for their ends.
func (r *run) withJobs(ctx context.Context, do func(context.Context) error) error {
	c, err := r.newClient(ctx)
	if err != nil {
		return err
	}
	defer c.at.Close()
	defer c.waits.Wait()
	all, abandon := context.WithCancel(ctx)
	defer abandon()
	disturbed, stop := context.WithCancel(all)
	defer stop()
	var submitter sync.WaitGroup
	submitter.Go(func() { c.submitAll(all, disturbed) })
	err = do(ctx)
	stop()
	if err != nil {
		abandon()
	}
	submitter.Wait()
	if err != nil {
		return err
	}
	return c.finish(ctx)
}

func (r *run) newClient(ctx context.Context) (*client, error) {
	at, err := OpenCoordinator(ctx, r.sys.Addresses().Coordinator, coordinators.Options{})
	if err != nil {
		return nil, err
	}
	queue, err := jobs.New(at, JobGroup)
	return &client{run: r, at: at, queue: queue, rnd: rand.New(rand.NewPCG(r.o.Seed, 2))}, err
}

// submitAll submits jobs until disturbed ends, and then more until there are as many as the scenario
// demands.
func (c *client) submitAll(ctx, disturbed context.Context) {
	few := func(s *seen) bool { return s.jobs.unfinished() < jobsAhead*c.Topology.Workers }
	for disturbed.Err() == nil && c.rec.wait(disturbed, "room for another job", few) == nil {
		c.submit(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, finishTime)
	defer cancel()
	for c.acked < c.Workload.Jobs && ctx.Err() == nil &&
		c.rec.wait(ctx, "room for another job", few) == nil {
		c.submit(ctx)
	}
}

// submit submits one job, and records that.
func (c *client) submit(ctx context.Context) {
	c.sent++
	payload := JobPayload{Steps: 2 + c.rnd.IntN(5)}
	if c.Random && c.rnd.IntN(10) == 0 {
		payload.Fails = 1 + c.rnd.IntN(2)
	}
	input, _ := json.Marshal(payload)
	spec := jobs.Spec{
		Kind: JobKind, Payload: input, Priority: c.rnd.IntN(3), Timeout: jobs.Duration(20 * time.Second),
		Retries: 100, Backoff: jobs.Duration(200 * time.Millisecond),
	}
	if c.rnd.IntN(4) == 0 {
		spec.Resource = fence.Resource(fmt.Sprintf("merchant_%d", 1+c.rnd.IntN(sharedResources)))
	}
	e := history.Event{
		Kind: history.Invoke, Process: "submitter", Op: fmt.Sprintf("submitter.s%d", c.sent),
		Do: history.Submit, Step: payload.Steps,
	}
	c.rec.add(e)
	bounded, cancel := context.WithTimeout(ctx, submitTime)
	defer cancel()
	id, err := c.queue.Submit(bounded, spec)
	e.Kind, e.Key, e.Outcome, e.At = history.Return, string(id), history.OK, 0
	if err != nil {
		e.Outcome, e.Text = history.Unknown, err.Error()
	} else {
		c.acked++
		c.waits.Go(func() { c.await(ctx, id) })
	}
	c.rec.add(e)
}

// await waits for a job's end, as its submitter would. A worker's word for it is not enough: one that
// is cut off may have published the end and never learn that.
func (c *client) await(ctx context.Context, id jobs.ID) {
	for ctx.Err() == nil {
		if _, err := c.queue.Wait(ctx, id); err == nil {
			c.rec.jobEnded(string(id))
			return
		}
		_ = sleep(ctx, 100*time.Millisecond) // the coordinator is down
	}
}

// finish waits until every job has ended. If one has not, the checker says so.
func (c *client) finish(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, finishTime)
	defer cancel()
	c.progress("%d jobs were submitted; waiting for their ends", c.acked)
	for {
		open := 0
		err := c.queue.List(bounded, func(s jobs.Status) error {
			if !s.State.Finished() {
				open++
			}
			return nil
		})
		if err == nil && open == 0 {
			return nil
		}
		if sleep(bounded, 250*time.Millisecond) != nil {
			c.note("lab", fmt.Sprintf("%d jobs have not ended within %v: %v", open, finishTime, err))
			return ctx.Err()
		}
	}
}

// collectJobs records what the coordinator holds about jobs.
func (r *run) collectJobs(ctx context.Context) error {
	c, err := r.newClient(ctx)
	if err != nil {
		return err
	}
	defer c.at.Close()
	err = c.queue.List(ctx, func(s jobs.Status) error {
		r.rec.add(history.Event{
			Kind: history.Job, Key: string(s.ID), State: history.State(s.State), Attempt: s.Attempt,
			Token: s.Token, Text: firstLine(s.Error),
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
			c.rec.add(history.Event{
				Kind: history.Job, State: history.LeftOver, Text: folder + "/" + name,
			})
		}
	}
	return err
}
