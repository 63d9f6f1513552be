package jobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ringfence/ringfence/bench/internal/report"
	"github.com/ringfence/ringfence/bench/internal/rounds"
)

// cell measures one or more rows in one way.
type cell struct {
	rows []report.Row
	ways []string
	run  func(ctx context.Context, s *stage) ([]float64, error) // a value for each row
}

// least is the bar: assignments per second on an ensemble of three.
const least = 1000

func cells(p plan) []cell {
	ringfenced := []string{zooKeeper, etcd, postgres}
	backlog := fmt.Sprintf("backlog=%d ", p.backlog)
	return []cell{
		{[]report.Row{{Name: "submit c=8", Unit: "1/s"}}, allWays, submissions},
		{
			[]report.Row{{Name: fmt.Sprintf("assign n=%d", p.jobs), Unit: "1/s", Bar: &report.Bar{
				Way: zooKeeper, Limit: least,
			}}}, ringfenced, assignments,
		},
		{[]report.Row{{Name: "done workers=1", Unit: "1/s"}}, allWays, doneBy(1)},
		{[]report.Row{{Name: "done workers=4", Unit: "1/s"}}, allWays, doneBy(4)},
		withStore(noStore), withStore(direct), withStore(guarded),
		{
			[]report.Row{
				{Name: "start p50", Unit: "ms", Lower: true}, {Name: "start p99", Unit: "ms", Lower: true},
			}, allWays, starts,
		},
		{
			[]report.Row{
				{Name: backlog + "first", Unit: "ms", Lower: true}, {Name: backlog + "assign", Unit: "1/s"},
				{Name: backlog + "memory", Unit: "MiB", Lower: true},
			}, ringfenced, backlogged,
		},
		{[]report.Row{{Name: "killed worker", Unit: "ms", Lower: true}}, ringfenced, killedWorker},
		{[]report.Row{{Name: "killed assigner", Unit: "ms", Lower: true}}, ringfenced, killedAssigner},
	}
}

const method = "submit: jobs handed in per second by 8 callers of one client. assign: jobs that " +
	"wait are assigned to four members that run nothing. done: no-op handlers, from the moment at " +
	"which all jobs wait until all have ended. start: from the call of Submit until the handler is " +
	"called, one job at a time. backlog: from the moment at which members join; memory is the most " +
	"that the process that assigns has had. killed: from the KILL until what was lost runs " +
	"elsewhere, or a new job runs, minus the session timeout."

// measure measures everything that the flags choose.
func (s *options) measure(ctx context.Context, progress io.Writer) (r *report.Report, err error) {
	r = report.New("jobs", s.Options)
	r.Note(method)
	r.Note("Workers are processes of capacity %d; session timeout %s.", s.plan.capacity,
		s.plan.timeout)
	r.Note(serversNote)
	if slices.Contains(s.plan.ways, withRiver) {
		r.Note(riverNote)
	}
	chosen := s.chosen()
	rows := make([][]*report.Row, len(chosen))
	for i, c := range chosen {
		for _, row := range c.rows {
			rows[i] = append(rows[i], r.Row(row))
		}
	}
	if len(chosen) == 0 {
		return nil, errors.New("no row has such a name")
	}
	servers, err := start(ctx, s.plan.ways)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, servers.Close()) }()
	if slices.ContainsFunc(chosen, usesStore) {
		r.Note(storesNote)
		if err := servers.startStore(ctx, s.Guard); err != nil {
			return nil, err
		}
		s.plan.stores = servers.stores
	}
	for round := range s.Rounds {
		for i, c := range chosen {
			for _, way := range rounds.Turn(c.ways, round) {
				fmt.Fprintf(progress, "round %d of %d: %s, %s", round+1, s.Rounds, c.rows[0].Name, way)
				values, err := s.once(ctx, c, way, servers.urls[way])
				if err != nil {
					return nil, fmt.Errorf("%s, %s: %w", c.rows[0].Name, way, err)
				}
				fmt.Fprintf(progress, ": %.1f\n", values)
				for j, value := range values {
					if s.Wants(c.rows[j].Name) {
						rows[i][j].Add(way, value)
					}
				}
			}
		}
	}
	return r, nil
}

// chosen returns the cells that the flags choose, with their ways.
func (s *options) chosen() (all []cell) {
	for _, c := range cells(s.plan) {
		c.ways = slices.DeleteFunc(slices.Clone(c.ways), func(way string) bool {
			return !slices.Contains(s.plan.ways, way)
		})
		if len(c.ways) > 0 && slices.ContainsFunc(c.rows, func(r report.Row) bool {
			return s.Wants(r.Name)
		}) {
			all = append(all, c)
		}
	}
	return all
}

// maxCell bounds one measurement.
const maxCell = 5 * time.Minute

// once makes one measurement with a fresh queue.
func (s *options) once(ctx context.Context, c cell, way, url string) ([]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, maxCell)
	defer cancel()
	name := fmt.Sprintf("b%d", time.Now().UnixMicro())
	st := &stage{plan: s.plan, way: way, what: strings.ReplaceAll(c.rows[0].Name, " ", "-")}
	if way == withRiver {
		q, err := openRiver(ctx, s.plan, url, name)
		if err != nil {
			return nil, err
		}
		st.queue = q
	} else {
		q, err := openRingfence(ctx, s.plan, way, url, name)
		if err != nil {
			return nil, err
		}
		st.queue, st.group = q, q
	}
	defer st.close()
	return c.run(ctx, st)
}

// stage is where one measurement is made.
type stage struct {
	plan  plan
	way   string
	what  string // is measured
	queue queue
	group *ringfence // the same queue; nil if it is River's
	store string     // the URL of the workers' store; empty: none

	workers []*child
}

// close ends the workers.
func (s *stage) close() {
	for _, w := range s.workers {
		w.End()
	}
	s.queue.close()
}

// worker starts a worker's process, and waits until it is ready.
func (s *stage) worker(ctx context.Context, m mode, capacity int) (*child, error) {
	d := s.queue.duty()
	d.Store = s.store
	d.Name, d.Mode, d.Capacity = fmt.Sprintf("%s-%d", m, len(s.workers)+1), m, capacity
	if s.plan.profile != "" {
		d.Profile = filepath.Join(s.plan.profile, fmt.Sprintf("%s-%s-%s.pprof", s.way, s.what, d.Name))
	}
	c, err := startChild(d)
	if err != nil {
		return nil, err
	}
	s.workers = append(s.workers, c)
	if err := c.isReady(ctx); err != nil {
		return nil, err
	}
	return c, s.queue.ready(ctx, len(s.workers))
}
