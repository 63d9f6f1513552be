package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ringfence/ringfence/bench/internal/program"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/fence/group"
	"github.com/ringfence/ringfence/internal/coordinators"
	"github.com/ringfence/ringfence/internal/settings"
	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/store/pgstore"
)

// queue is a fresh queue of jobs, of Ringfence or of River.
type queue interface {
	// submit hands a job with this number in.
	submit(ctx context.Context, job int) error
	// finished is how many jobs have ended.
	finished(ctx context.Context) (int, error)
	// duty is that of a worker of this queue.
	duty() duty
	// ready waits until this number of workers are ready for jobs.
	ready(ctx context.Context, workers int) error
	close()
}

// ringfence is a group.
type ringfence struct {
	plan plan
	way  string
	url  string
	at   documents.Coordinator
	jobs *jobs.Queue
}

func openRingfence(ctx context.Context, p plan, way, url, name string) (*ringfence, error) {
	at, err := openCoordinator(ctx, url, p.timeout)
	if err != nil {
		return nil, err
	}
	q, err := jobs.New(at, name)
	if err != nil {
		return nil, err
	}
	return &ringfence{p, way, url, at, q}, nil
}

func openCoordinator(
	ctx context.Context, url string, timeout time.Duration,
) (documents.Coordinator, error) {
	return coordinators.All.Open(ctx, settings.URL(url), coordinators.Options{SessionTimeout: timeout})
}

func (r *ringfence) close() { _ = r.at.Close() }

func (r *ringfence) submit(ctx context.Context, job int) error {
	_, err := jobs.Submit(ctx, r.jobs, kind, job)
	return err
}

// folder is one of the group's folders of documents.
func (r *ringfence) folder(name string) string {
	return "jobs/" + r.jobs.Group().Name() + "/" + name
}

func (r *ringfence) finished(ctx context.Context) (int, error) {
	names, err := r.at.Documents().Names(ctx, r.folder("finished"))
	return len(names), err
}

func (r *ringfence) duty() duty {
	return duty{Way: r.way, URL: r.url, Queue: r.jobs.Group().Name(), Timeout: r.plan.timeout}
}

func (r *ringfence) ready(ctx context.Context, workers int) error {
	err := program.Until(ctx, 50*time.Millisecond, func() (bool, error) {
		all, err := r.jobs.Group().Members(ctx)
		return len(all) == workers, err
	})
	if err != nil {
		return err
	}
	return program.Until(ctx, 50*time.Millisecond, func() (bool, error) {
		all, err := r.at.Candidates(ctx, r.jobs.Leader())
		return len(all) > 0 && all[0].Ready, err
	})
}

// join makes members that have room for this number of jobs, and run none.
func (r *ringfence) join(members, jobs int) (leave func(), err error) {
	offer := fmt.Sprintf(`{"capacity":%d,"kinds":[%q]}`, jobs/members+1, kind)
	var all []*group.Membership
	leave = func() {
		for _, m := range all {
			m.Leave()
		}
	}
	for i := range members {
		m, err := r.jobs.Group().Join(fmt.Sprint("member-", i), []byte(offer))
		if err != nil {
			leave()
			return nil, err
		}
		all = append(all, m)
	}
	return leave, nil
}

// waiting are the names of the jobs that wait, in the order in which they are assigned.
func (r *ringfence) waiting(ctx context.Context) ([]string, error) {
	return r.at.Documents().Names(ctx, r.folder("waiting"))
}

// ringfenceWorker runs a worker until ctx ends.
func ringfenceWorker(ctx context.Context, d duty, h *handler) error {
	at, err := openCoordinator(ctx, d.URL, d.Timeout)
	if err != nil {
		return err
	}
	defer at.Close()
	q, err := jobs.New(at, d.Queue)
	if err != nil {
		return err
	}
	takes := kind
	if d.Mode == idle {
		takes = "none"
	}
	w := jobs.Worker{
		Queue: q, Name: d.Name, Capacity: d.Capacity,
		Handlers: map[string]jobs.Handler{takes: func(ctx context.Context, r *jobs.Run) (any, error) {
			var job int
			if err := json.Unmarshal(r.Spec.Payload, &job); err != nil {
				return nil, err
			}
			return nil, h.handle(ctx, job)
		}},
	}
	if d.Store != "" {
		raiser := pgstore.NewRaiser(d.Store, nil)
		defer raiser.Close()
		w.Stores = []fence.Raiser{raiser}
	}
	h.say("ready")
	return w.Run(ctx)
}

// load submits jobs, several at a time, and returns how many it has submitted per second.
func load(ctx context.Context, q queue, jobs, submitters int) (float64, error) {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(submitters)
	began := time.Now()
	for i := range jobs {
		g.Go(func() error { return q.submit(ctx, i) })
	}
	err := g.Wait()
	return float64(jobs) / time.Since(began).Seconds(), err
}
