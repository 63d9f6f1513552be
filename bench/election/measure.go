package election

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ringfence/ringfence/bench/internal/program"
	"github.com/ringfence/ringfence/bench/internal/rounds"
	"github.com/ringfence/ringfence/internal/test/servers"
)

// plan says what is measured.
type plan struct {
	entries      []entry
	sizes, terms []int
	agentTerms   []int
	leader       string        // the program, for its agent
	timeout      time.Duration // of the sessions in an election
	coordinators int           // most in an election
	crashes      int
	resignations int
	rest         time.Duration
}

func (p plan) valid() bool {
	return p.timeout >= time.Second && p.timeout%time.Second == 0 && p.coordinators > 0 &&
		p.crashes > 0 &&
		p.resignations > 0 && p.rest > 0
}

// electionLimit bounds one election. An overloaded one, in which sessions expire faster than they
// are opened, would never end.
const electionLimit = 3 * time.Minute

// heldTimeout is the session timeout of a process that leads: the default.
const heldTimeout = 10 * time.Second

// electionRow has what was measured in one election. Times are in milliseconds.
type electionRow struct {
	Coordinator string `json:"coordinator"`
	Candidates  int    `json:"candidates"`
	Sessions    int    `json:"sessions"`
	Connections int    `json:"connections,omitempty"` // where the server says
	// from the first connection until all are enrolled
	Enrolled  float64 `json:"enrolled_ms"`
	Rest      float64 `json:"requests_per_second"` // at rest
	ResignP50 float64 `json:"resignation_p50_ms"`  // from the call until the next term
	ResignP99 float64 `json:"resignation_p99_ms"`
	// from the KILL until the next term, minus the session timeout
	CrashP50 float64 `json:"crash_p50_ms"`
	CrashMax float64 `json:"crash_max_ms"`
	WokenMin int     `json:"woken_min"` // by one death
	WokenMax int     `json:"woken_max"`
	Failed   string  `json:"failed,omitempty"` // why there are no figures
	Stall    float64 `json:"longest_stall_ms"` // in which this process was not scheduled
}

// heldRow has what a process costs that leads.
type heldRow struct {
	Coordinator string  `json:"coordinator"`
	Terms       int     `json:"terms"`
	Agent       bool    `json:"agent,omitempty"` // it is an agent, and its clients lead
	Sessions    int     `json:"sessions"`
	Connections int     `json:"connections,omitempty"`
	Won         float64 `json:"won_ms"` // until all terms are won
	Rest        float64 `json:"requests_per_second"`
	Bytes       float64 `json:"bytes_per_second"` // in both directions
	Open        float64 `json:"open_mib"`         // memory of the process with an open coordinator
	Leads       float64 `json:"leads_mib"`        // and with all terms

	// Agent: from the call that deposes a term until its client has read that.
	ToldP50 float64 `json:"told_p50_ms,omitempty"`
	ToldP99 float64 `json:"told_p99_ms,omitempty"`
}

func measure(ctx context.Context, p plan, progress io.Writer) (*report, error) {
	r := &report{plan: p}
	for _, e := range p.entries {
		if err := r.add(ctx, e, progress); err != nil {
			return nil, fmt.Errorf("%s: %w", e.name, err)
		}
	}
	return r, nil
}

// add measures one coordinator.
func (r *report) add(ctx context.Context, e entry, progress io.Writer) (err error) {
	s, err := e.start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	version, err := s.version(ctx)
	if err != nil {
		return err
	}
	r.servers = append(r.servers, version)
	// The first coordinator prepares the server.
	c, err := open(ctx, s.url(s.address()), r.plan.timeout)
	if err != nil {
		return err
	}
	if err := c.Close(); err != nil {
		return err
	}
	for _, n := range r.plan.sizes {
		fmt.Fprintf(progress, "%s: an election with %d candidates\n", e.name, n)
		row, err := r.plan.election(ctx, e, s, n)
		if ctx.Err() != nil {
			return fmt.Errorf("an election with %d candidates: %w", n, err)
		}
		if err != nil { // such as one that is too large for the machine; the others still count
			row.Failed = err.Error()
			fmt.Fprintf(progress, "%s: it failed: %v\n", e.name, err)
		}
		r.elections = append(r.elections, row)
	}
	for _, n := range r.plan.terms {
		fmt.Fprintf(progress, "%s: a process that leads %d resources\n", e.name, n)
		row, err := r.plan.held(ctx, e, s, n)
		if err != nil {
			return fmt.Errorf("a process that leads %d resources: %w", n, err)
		}
		r.held = append(r.held, row)
	}
	for _, n := range r.plan.agentTerms {
		fmt.Fprintf(progress, "%s: an agent with %d terms\n", e.name, n)
		row, err := r.plan.byAgent(ctx, e, s, n)
		if err != nil {
			return fmt.Errorf("an agent with %d terms: %w", n, err)
		}
		r.held = append(r.held, row)
	}
	return nil
}

// election measures an election.
func (p plan) election(
	ctx context.Context, e entry, s server, candidates int,
) (row electionRow, err error) {
	row = electionRow{Coordinator: e.name, Candidates: candidates}
	ctx, cancel := context.WithTimeout(ctx, electionLimit)
	defer cancel()
	before, err := s.state(ctx)
	if err != nil {
		return row, err
	}
	run := newElection(ctx, fmt.Sprintf("bench%d", candidates))
	defer func() { err = errors.Join(err, run.close(), p.settled(ctx, s, before)) }()
	enrolled := func(n int) error {
		return program.Until(run.ctx, 20*time.Millisecond, func() (bool, error) {
			now, err := s.state(run.ctx)
			return now.candidates-before.candidates == n, err
		})
	}
	for n := range p.crashes {
		if err := errors.Join(run.addVictim(s.url(s.address()), p.timeout), enrolled(n+1)); err != nil {
			return row, err
		}
	}
	start := time.Now()
	if err := run.addCrowd(s.url(s.address()), candidates, min(candidates, p.coordinators),
		p.timeout); err != nil {
		return row, err
	}
	if err := enrolled(p.crashes + candidates); err != nil {
		return row, err
	}
	row.Enrolled = ms(time.Since(start))
	if _, err := run.next(); err != nil { // the first victim
		return row, err
	}
	if row.Rest, err = p.atRest(ctx, e, s, nil); err != nil {
		return row, err
	}
	now, err := s.state(ctx)
	if err != nil {
		return row, err
	}
	row.Sessions, row.Connections = now.sessions-before.sessions, now.connections-before.connections
	watch := watchStalls(ctx)
	defer func() { row.Stall = ms(watch()) }()
	leader, err := p.crash(ctx, s, run, &row)
	if err != nil {
		return row, err
	}
	return row, p.resign(run, leader, &row)
}

// crash kills the victims, one after another, and returns the leader from the crowd that follows.
func (p plan) crash(
	ctx context.Context, s server, run *election, row *electionRow,
) (leader win, err error) {
	var late []time.Duration
	for i, victim := range run.victims {
		// Anywhere between two renewals.
		if err := pause(ctx, rand.N(p.timeout/3)); err != nil {
			return leader, err
		}
		count, err := s.notices(ctx)
		if err != nil {
			return leader, err
		}
		start := time.Now()
		victim.Kill()
		if leader, err = run.next(); err != nil {
			return leader, err
		}
		late = append(late, leader.at.Sub(start)-p.timeout)
		if err := pause(ctx, 50*time.Millisecond); err != nil { // for those who are woken in vain
			return leader, err
		}
		woken, err := count()
		if err != nil {
			return leader, err
		}
		row.WokenMax = max(row.WokenMax, woken)
		if i == 0 || woken < row.WokenMin {
			row.WokenMin = woken
		}
	}
	slices.Sort(late)
	row.CrashP50, row.CrashMax = ms(rounds.Percentile(late, 0.5)), ms(late[len(late)-1])
	return leader, nil
}

// resign lets leaders resign, one after another. Each stands again at the end of the queue.
func (p plan) resign(run *election, leader win, row *electionRow) error {
	var took []time.Duration
	for range p.resignations {
		if err := pause(run.ctx, 20*time.Millisecond); err != nil {
			return err
		}
		if leader.leader == nil {
			return errors.New("a process leads that should be dead")
		}
		start := time.Now()
		leader.leader.resign <- struct{}{}
		next, err := run.next()
		if err != nil {
			return err
		}
		took = append(took, next.at.Sub(start))
		select {
		case leader.leader.again <- struct{}{}:
		case <-run.ctx.Done():
			return context.Cause(run.ctx)
		}
		leader = next
	}
	slices.Sort(took)
	row.ResignP50, row.ResignP99 = ms(rounds.Percentile(took, 0.5)), ms(rounds.Percentile(took, 0.99))
	return nil
}

// held measures a process that leads.
func (p plan) held(ctx context.Context, e entry, s server, terms int) (row heldRow, err error) {
	row = heldRow{Coordinator: e.name, Terms: terms}
	err = p.holding(ctx, e, s, &row, func(url string) (*child, error) {
		c, err := startChild(url, severalResources, heldTimeout)
		if err == nil {
			err = c.says(ctx, "open")
		}
		return c, err
	}, func(c *child) error {
		return errors.Join(c.campaign(terms), c.says(ctx, "leads"))
	}, func() error { return nil })
	return row, err
}

// holding measures a process that holds terms once campaign has returned. then is called at the
// end.
func (p plan) holding(ctx context.Context, e entry, s server, row *heldRow,
	begin func(url string) (*child, error), campaign func(*child) error, then func() error,
) (err error) {
	before, err := s.state(ctx)
	if err != nil {
		return err
	}
	through, err := servers.NewRelay(s.address(), servers.RelayOptions{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.settled(ctx, s, before), through.Close()) }()
	c, err := begin(s.url(through.Addr()))
	if c != nil {
		defer c.End()
	}
	if err != nil {
		return err
	}
	open, err := c.resident()
	if err != nil {
		return err
	}
	start := time.Now()
	if err := campaign(c); err != nil {
		return err
	}
	row.Won = ms(time.Since(start))
	if row.Rest, err = p.atRest(ctx, e, s, func(during time.Duration, begin bool) {
		row.Bytes = float64(through.Bytes()) - row.Bytes
		if !begin {
			row.Bytes /= during.Seconds()
		}
	}); err != nil {
		return err
	}
	full, err := c.resident()
	if err != nil {
		return err
	}
	row.Open, row.Leads = float64(open)/(1<<20), float64(full)/(1<<20)
	now, err := s.state(ctx)
	row.Sessions, row.Connections = now.sessions-before.sessions, now.connections-before.connections
	return errors.Join(err, then())
}

// atRest returns the requests per second. It calls also, if there is one, at the begin and the end.
func (p plan) atRest(
	ctx context.Context, e entry, s server, also func(during time.Duration, begin bool),
) (float64, error) {
	if err := pause(ctx, e.quiet); err != nil {
		return 0, err
	}
	if also != nil {
		also(0, true)
	}
	start := time.Now()
	before, err := s.requests(ctx)
	if err != nil {
		return 0, err
	}
	if err := pause(ctx, p.rest); err != nil {
		return 0, err
	}
	after, err := s.requests(ctx)
	took := time.Since(start)
	if also != nil {
		also(took, false)
	}
	return float64(after-before) / took.Seconds(), err
}

// settled waits until everything is gone that was not there before.
func (p plan) settled(ctx context.Context, s server, before state) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	var now state
	err := program.Until(ctx, 100*time.Millisecond, func() (done bool, err error) {
		now, err = s.state(ctx)
		return now.candidates <= before.candidates && now.sessions <= before.sessions, err
	})
	if err != nil {
		err = fmt.Errorf("the server has %+v, and had %+v: %w", now, before, err)
	}
	return err
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// watchStalls returns a function that returns the longest time until then in which this process was
// not scheduled. On a busy machine the latencies are no better than that.
func watchStalls(ctx context.Context) (longest func() time.Duration) {
	ctx, stop := context.WithCancel(ctx)
	most := make(chan time.Duration, 1)
	go func() {
		const every = 2 * time.Millisecond
		tick := time.NewTicker(every)
		defer tick.Stop()
		var stall time.Duration
		for last := time.Now(); ; {
			select {
			case <-tick.C:
				stall = max(stall, time.Since(last)-every)
				last = time.Now()
			case <-ctx.Done():
				most <- stall
				return
			}
		}
	}()
	return func() time.Duration { stop(); return <-most }
}

func ms(d time.Duration) float64 { return d.Seconds() * 1e3 }
