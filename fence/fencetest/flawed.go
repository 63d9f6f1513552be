package fencetest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
)

// flawed is a coordinator that is wrong on purpose. It stands in front of a right one and changes
// what the contract sees of it.
type flawed struct {
	elector.Coordinator
	flaw  *flaw
	world *world

	ctx  context.Context // ends at Close
	stop context.CancelFunc
	work sync.WaitGroup

	mu        sync.Mutex
	closed    bool
	cut       bool // between Cut and Heal
	dropped   bool // a connection has broken
	loseReply bool // of the next campaign
	terms     []*shadow
	standing  []*standing
	others    []elector.Coordinator // more clients, for the flaw's own use
	first     answer                // the first issuer, and who led each resource first
	last      answer                // what was right the last time
	empty     []fence.Resource
	listed    []elector.Candidate
	own       fence.Issuer // replaces the coordinator's issuer, unless ""
}

// world is what the clients of one coordinator share.
type world struct {
	timeout time.Duration
	open    func() elector.Coordinator // another right client

	mu      sync.Mutex
	clients []*flawed
	renewed int
	issuer  fence.Issuer // replaces the coordinator's issuer, unless ""
}

// on returns a fixture for a coordinator that has the flaw.
func (fl *flaw) on(right Fixture) Fixture {
	wrong := right
	one := &world{timeout: right.SessionTimeout}
	wrong.Open = func(t testing.TB) elector.Coordinator {
		one.mu.Lock()
		one.open = func() elector.Coordinator { return right.Open(t) }
		one.mu.Unlock()
		return fl.wrap(one, right.Open(t))
	}
	wrong.Alone = func(t testing.TB) (c, operator elector.Coordinator) {
		other := &world{timeout: right.SessionTimeout}
		c, operator = right.Alone(t)
		return fl.wrap(other, c), fl.wrap(other, operator)
	}
	fault := func(
		does func(testing.TB, elector.Coordinator), before, after func(*flawed),
	) func(testing.TB, elector.Coordinator) {
		if does == nil {
			return nil
		}
		return func(t testing.TB, c elector.Coordinator) {
			f := c.(*flawed)
			before(f)
			does(t, f.Coordinator)
			after(f)
		}
	}
	note := func(what func(f *flawed)) func(*flawed) {
		return func(f *flawed) {
			f.mu.Lock()
			defer f.mu.Unlock()
			what(f)
		}
	}
	noop := func(*flawed) {}
	wrong.Cut = fault(right.Cut, note(func(f *flawed) { f.cut = true }), noop)
	wrong.Heal = fault(right.Heal, noop, func(f *flawed) {
		note(func(f *flawed) { f.cut = false })(f)
		f.candidatesGone("", "")
	})
	wrong.Drop = fault(right.Drop, note(func(f *flawed) { f.dropped = true }), noop)
	wrong.Expire = fault(right.Expire, noop, func(f *flawed) { f.candidatesGone("", "") })
	wrong.LoseReply = fault(right.LoseReply, note(func(f *flawed) { f.loseReply = true }), noop)
	if right.Delete != nil {
		wrong.Delete = func(t testing.TB, r fence.Resource, token fence.Token) {
			one.gone(r, token, func() { right.Delete(t, r, token) })
		}
	}
	if fl.change != nil {
		fl.change(&wrong)
	}
	return wrong
}

func (fl *flaw) wrap(w *world, c elector.Coordinator) *flawed {
	f := &flawed{Coordinator: c, flaw: fl, world: w}
	f.ctx, f.stop = context.WithCancel(context.Background())
	if fl.opened != nil {
		fl.opened(f)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clients = append(w.clients, f)
	return f
}

// Close ends the right client first, so that its terms are lost when the shadows look.
func (f *flawed) Close() error {
	err := f.Coordinator.Close()
	f.mu.Lock()
	f.closed = true
	others := f.others
	f.mu.Unlock()
	for _, c := range others {
		err = errors.Join(err, c.Close())
	}
	f.stop()
	f.work.Wait()
	return err
}

func (f *flawed) isClosed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closed
}

func (f *flawed) isCut() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cut
}

// Campaign implements elector.Coordinator.
func (f *flawed) Campaign(
	ctx context.Context, r fence.Resource, holder string,
) (*fence.Term, error) {
	if f.flaw.campaign != nil {
		return f.flaw.campaign(f, ctx, r, holder)
	}
	return f.rightCampaign(ctx, r, holder)
}

func (f *flawed) rightCampaign(
	ctx context.Context, r fence.Resource, holder string,
) (*fence.Term, error) {
	right, err := f.Coordinator.Campaign(ctx, r, holder)
	if err != nil {
		return nil, err
	}
	return f.shadowOf(right), nil
}

// inBackground starts a campaign that only Close ends.
func (f *flawed) inBackground(r fence.Resource, holder string) <-chan *fence.Term {
	won := make(chan *fence.Term, 1)
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.work.Go(func() {
			if term, err := f.rightCampaign(f.ctx, r, holder); err == nil {
				won <- term
			}
		})
	}
	return won
}

// queueOf lists an election, or nothing if that fails.
func (f *flawed) queueOf(ctx context.Context, r fence.Resource) []elector.Candidate {
	queue, _ := f.Coordinator.Candidates(ctx, r)
	return queue
}

// standing is a campaign that a flaw may give up.
type standing struct {
	resource fence.Resource
	holder   string
	giveUp   context.CancelFunc
	over     chan struct{} // closed when the right campaign has returned
}

// candidatesGone is called when candidates of this client are gone: of one campaign, or of all if
// the resource is "". It returns when those that are given up have left.
func (f *flawed) candidatesGone(r fence.Resource, holder string) {
	f.mu.Lock()
	all := slices.Clone(f.standing)
	f.mu.Unlock()
	for _, s := range all {
		select {
		case <-s.over:
			continue
		default:
		}
		if r == "" || s.resource == r && s.holder == holder {
			s.giveUp()
			<-s.over
			f.poll(f.ctx, func() bool {
				queue, err := f.Coordinator.Candidates(f.ctx, s.resource)
				return err == nil && !slices.ContainsFunc(queue, func(c elector.Candidate) bool {
					return c.Holder == s.holder
				})
			})
		}
	}
}

// gone deletes a candidate.
func (w *world) gone(r fence.Resource, token fence.Token, remove func()) {
	w.mu.Lock()
	clients := slices.Clone(w.clients)
	w.mu.Unlock()
	queue := clients[0].queueOf(clients[0].ctx, r)
	remove()
	i := slices.IndexFunc(queue, func(c elector.Candidate) bool { return c.Token == token })
	if i < 0 {
		return
	}
	for _, f := range clients {
		f.candidatesGone(r, queue[i].Holder)
	}
}

// Depose implements elector.Coordinator.
func (f *flawed) Depose(
	ctx context.Context, r fence.Resource, t fence.Token,
) (found bool, err error) {
	if f.flaw.depose != nil {
		return f.flaw.depose(f, ctx, r, t)
	}
	f.world.gone(r, t, func() { found, err = f.Coordinator.Depose(ctx, r, t) })
	return found, err
}

// Candidates implements elector.Coordinator.
func (f *flawed) Candidates(ctx context.Context, r fence.Resource) ([]elector.Candidate, error) {
	queue, err := f.Coordinator.Candidates(ctx, r)
	right := slices.Clone(queue)
	if f.flaw.candidates != nil {
		queue, err = f.flaw.candidates(f, queue, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if right != nil {
		f.listed = right
	}
	return queue, err
}

// Watch implements elector.Coordinator.
func (f *flawed) Watch(
	ctx context.Context, r fence.Resource, each func([]elector.Candidate) error,
) error {
	if f.flaw.watch != nil {
		each = f.flaw.watch(f, each)
	}
	err := f.Coordinator.Watch(ctx, r, each)
	if f.flaw.watched != nil {
		err = f.flaw.watched(err)
	}
	return err
}

// Issuer implements elector.Coordinator.
func (f *flawed) Issuer(ctx context.Context) (fence.Issuer, error) {
	issuer, err := f.Coordinator.Issuer(ctx)
	return f.issuerOr(issuer), err
}

// RenewIssuer implements elector.Coordinator.
func (f *flawed) RenewIssuer(ctx context.Context) (fence.Issuer, error) {
	if f.flaw.renew != nil {
		return f.flaw.renew(f, ctx)
	}
	return f.Coordinator.RenewIssuer(ctx)
}

// issuerOr returns the right issuer, unless the flaw has another.
func (f *flawed) issuerOr(right fence.Issuer) fence.Issuer {
	f.mu.Lock()
	own := f.own
	f.mu.Unlock()
	f.world.mu.Lock()
	defer f.world.mu.Unlock()
	switch {
	case own != "":
		return own
	case f.world.issuer != "":
		return f.world.issuer
	}
	return right
}

// answer is an answer of Leaders.
type answer struct {
	asked   []fence.Resource
	issuer  fence.Issuer
	leaders []elector.Candidate
	err     error
}

// of returns the leader of a resource in the answer.
func (a answer) of(r fence.Resource) (elector.Candidate, bool) {
	if i := slices.Index(a.asked, r); i >= 0 {
		return a.leaders[i], true
	}
	return elector.Candidate{}, false
}

// Leaders implements elector.Coordinator.
func (f *flawed) Leaders(
	ctx context.Context, rs ...fence.Resource,
) (fence.Issuer, []elector.Candidate, error) {
	now := answer{asked: slices.Clone(rs)}
	now.issuer, now.leaders, now.err = f.Coordinator.Leaders(ctx, rs...)
	now.issuer = f.issuerOr(now.issuer)
	f.mu.Lock()
	defer f.mu.Unlock()
	right := now
	right.leaders = slices.Clone(now.leaders)
	if f.flaw.leaders != nil {
		f.flaw.leaders(f, &now)
	}
	if right.err == nil {
		f.remember(right)
	}
	return now.issuer, now.leaders, now.err
}

func (f *flawed) remember(right answer) {
	f.last = right
	if f.first.issuer == "" {
		f.first.issuer = right.issuer
	}
	for i, r := range right.asked {
		_, known := f.first.of(r)
		switch leads := right.leaders[i].Token != 0; {
		case leads && !known:
			f.first.asked, f.first.leaders = append(f.first.asked, r), append(f.first.leaders,
				right.leaders[i])
		case !leads && !known:
			f.empty = append(f.empty, r)
		}
	}
}
