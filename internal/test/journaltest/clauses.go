package journaltest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/internal/test/contract"
	"github.com/ringfence/ringfence/internal/test/must"
)

// clauses are what the journal must do in addition to the contract of package checkpointtest.
var clauses = []contract.Clause[*stage]{
	{Name: "a waiting candidate does not publish", Holds: waitingCandidate},
	{Name: "a deposed leader without a successor is stale", Holds: deposedLeader},
	{Name: "a change of a deposed leader that arrives late changes nothing", Holds: lateChange},
	{Name: "a claim of another issuer is refused", Holds: otherIssuer},
	{Name: "a publish whose answer was lost is unknown, and is read back", Holds: lostAnswer},
	{
		Name:  "a publish costs one change, also where the task was read in another journal",
		Holds: begunAgain,
	},
	{Name: "what is stored and is no checkpoint is corrupt", Holds: corrupt},
	{Name: "an edit by hand is a new version", Holds: editByHand},
	{Name: "a journal that went back runs nothing", Holds: wentBack},
	{Name: "what is too large is refused, and names its limit", Holds: tooLarge},
	{Name: "every task is listed", Holds: everyTask},
	{Name: "bad names are refused", Holds: badNames},
	{Name: "a closed coordinator says so", Holds: closed},
}

// The candidate that waits exists, like the leader's, and has a higher token.
func waitingCandidate(p *stage) {
	j := p.journal()
	leader := p.lead(orders)
	ctx, cancel := context.WithCancel(p.Context())
	won := make(chan *fence.Term, 1)
	var campaign sync.WaitGroup
	campaign.Go(func() {
		term, _ := p.elector.Campaign(ctx, orders, "waiting")
		won <- term
	})
	defer campaign.Wait()
	defer cancel()
	waiting := leader
	waiting.Holder = "waiting"
	eventually(p.T, "the second waits", func() bool {
		queue, err := p.elector.Candidates(p.Context(), orders)
		if len(queue) == 2 {
			waiting.Token, waiting.Candidate = queue[1].Token, queue[1].ID
		}
		return err == nil && len(queue) == 2
	})
	refused(p.T, j, waiting, fence.ErrNotLeader, checkpoint.Checkpoint{})
	first := version(1, leader)
	publish(p.T, j, leader, first)
	refused(p.T, j, waiting, fence.ErrNotLeader, first)

	p.depose(orders)
	if term := <-won; term == nil || term.Token() != waiting.Token {
		p.Fatalf("the second leads with %v, not as %v", term, waiting)
	}
	refused(p.T, j, leader, fence.ErrStale, first)
	second := version(2, waiting)
	publish(p.T, j, waiting, second)
	refused(p.T, j, leader, fence.ErrStale, second)
}

// No newer leader has written, but the token of the old one is stale for ever.
func deposedLeader(p *stage) {
	j, fresh := p.journal(), p.journal()
	c := p.lead(orders)
	first := version(1, c)
	publish(p.T, j, c, first)
	p.depose(orders)
	refused(p.T, j, c, fence.ErrStale, first)
	refused(p.T, fresh, c, fence.ErrStale, first) // a journal that has never seen it lead
	never := c
	never.Token += 1 << 40
	refused(p.T, j, never, fence.ErrNotLeader, first)
}

// The request is delayed; no process pauses.
func lateChange(p *stage) {
	if p.f.Hold == nil {
		p.Skip("the fixture has no Hold")
	}
	for what, change := range map[string]func(checkpoint.Journal, fence.Claim) error{
		"publish": func(j checkpoint.Journal, c fence.Claim) error {
			return j.Publish(p.Context(), c, version(2, c))
		},
		"forget": func(j checkpoint.Journal, c fence.Claim) error {
			return j.Forget(p.Context(), c, nightly)
		},
	} {
		slow, quick := p.open(), p.journal()
		j := p.in(slow)
		old := p.lead(orders)
		first := version(1, old)
		publish(p.T, j, old, first)
		held, release := p.f.Hold(p.T, slow)
		late := make(chan error, 1)
		go func() { late <- change(j, old) }()
		held()
		fresh := p.lead(orders)
		if got, same, err := quick.TakeOver(p.Context(), fresh, nightly, 1); err != nil || !same {
			p.Fatalf("took %+v, same is %v, %v", got, same, err)
		}
		release() // its version would still fit
		if err := <-late; !errors.Is(err, fence.ErrStale) {
			p.Errorf("the late %s returned %v", what, err)
		}
		stored(p.T, quick, first)
		publish(p.T, quick, fresh, version(2, fresh))
		must.Report(p, quick.Forget(p.Context(), fresh, nightly))
	}
}

func otherIssuer(p *stage) {
	j := p.journal()
	c := p.lead(orders)
	first := version(1, c)
	publish(p.T, j, c, first)
	c.Issuer += "x"
	refused(p.T, j, c, fence.ErrOtherIssuer, first)
}

func lostAnswer(p *stage) {
	if p.f.LoseReply == nil {
		p.Skip("the fixture has no LoseReply")
	}
	client := p.open()
	j := p.in(client)
	c := p.lead(orders)
	other := version(1, c)
	other.Task = "other" // makes the folder
	publish(p.T, j, c, other)
	for n := int64(1); n < 4; n++ {
		cp := version(n, c)
		p.f.LoseReply(p.T, client)
		if err := j.Publish(p.Context(), c, cp); !errors.Is(err, checkpoint.ErrUnknown) {
			p.Errorf("version %d, whose reply was lost: %v", n, err)
		}
		got, _, err := j.TakeOver(p.Context(), c, nightly, n-1)
		if err != nil || got.Version != n || got.Nonce != cp.Nonce {
			p.Errorf("take: %+v, %v", got, err)
		}
		if err := j.Publish(p.Context(), c, cp); !errors.Is(err, checkpoint.ErrConflict) {
			p.Errorf("version %d once more: %v", n, err)
		}
	}
}

// The task is forgotten and begun again elsewhere, so the journal knows an old version of its
// document.
func begunAgain(p *stage) {
	j, other := p.journal(), p.journal()
	c, stock := p.lead(orders), p.lead("stock")
	publish(p.T, j, c, version(1, c))
	must.Succeed(p, other.Forget(p.Context(), c, nightly))
	publish(p.T, other, c, version(1, c))
	publish(p.T, other, c, version(2, c))
	publish(p.T, j, c, version(3, c))

	must.Succeed(p, other.Forget(p.Context(), c, nightly))
	again := version(1, stock)
	publish(p.T, other, stock, again)
	if err := j.Publish(p.Context(), c, version(4, c)); !errors.Is(err, checkpoint.ErrOtherResource) {
		p.Errorf("publish over another resource's task: %v", err)
	}
	_, _, err := j.TakeOver(p.Context(), c, nightly, 1)
	if !errors.Is(err, checkpoint.ErrOtherResource) {
		p.Errorf("take-over of another resource's task: %v", err)
	}
	stored(p.T, j, again)
}

// put writes what is stored for a task, as an operator does.
func (p *stage) put(name, data string) {
	p.Helper()
	at := "checkpoints/" + name
	now, err := p.documents().Get(p.Context(), documents.At(at))
	if err == nil {
		_, err = p.documents().Change(p.Context(), documents.Change{
			Writes: []documents.Write{documents.Replace(now[0], []byte(data))},
		})
	}
	must.Succeed(p, err)
}

// get returns what is stored.
func (p *stage) get(name string) string {
	p.Helper()
	now, err := p.documents().Get(p.Context(), documents.At("checkpoints/"+name))
	must.Succeed(p, err)
	return string(now[0].Data)
}

func (p *stage) remove(name string) {
	p.Helper()
	_, err := p.documents().Change(p.Context(), documents.Change{
		Writes: []documents.Write{documents.DeleteAny("checkpoints/" + name)},
	})
	must.Succeed(p, err)
}

func corrupt(p *stage) {
	c := p.lead(orders)
	good := version(1, c)
	good.Task = "good"
	publish(p.T, p.journal(), c, good)
	p.put("-no-task", "")
	for name, data := range map[string]string{
		"empty":       "",
		"not JSON":    "{",
		"null":        "null",
		"other task":  `{"task":"good","resource":"orders","version":1}`,
		"no resource": `{"task":"nightly","version":1}`,
		"no version":  `{"task":"nightly","resource":"orders"}`,
		"wrong type":  `{"task":"nightly","resource":"orders","steps":7}`,
	} {
		p.put(nightly, data)
		j := p.journal() // with an empty cache
		isCorrupt := func(what string, err error) {
			p.Helper()
			if !errors.Is(err, checkpoint.ErrCorrupt) || !strings.Contains(err.Error(), "nightly") {
				p.Errorf("%s: %s: %v", name, what, err)
			}
		}
		for _, have := range []int64{0, 1} {
			_, same, err := j.TakeOver(p.Context(), c, nightly, have)
			isCorrupt("take", err)
			if same {
				p.Errorf("%s: the copy is said to be right", name)
			}
		}
		for _, n := range []int64{1, 2} {
			isCorrupt("publish", j.Publish(p.Context(), c, version(n, c)))
		}
		isCorrupt("forget", j.Forget(p.Context(), c, nightly))
		isCorrupt("follow", j.Follow(p.Context(), nightly, func(cp checkpoint.Checkpoint) error {
			return fmt.Errorf("shown %+v", cp)
		}))
		all, err := j.Load(p.Context())
		isCorrupt("load", err)
		if len(all) != 1 || all[0].Nonce != good.Nonce {
			p.Errorf("%s: load: %+v", name, all)
		}
		if got := p.get(nightly); got != data {
			p.Errorf("%s was changed to %q", name, got)
		}
	}
}

// The operator counts the version up, as the package documentation says.
func editByHand(p *stage) {
	j := p.journal()
	c := p.lead(orders)
	cp := version(1, c)
	publish(p.T, j, c, cp)
	edited := strings.Replace(p.get(nightly), `"version":1`, `"version":2`, 1)
	p.put(nightly, edited)
	if err := j.Publish(p.Context(), c, version(2, c)); !errors.Is(err, checkpoint.ErrConflict) {
		p.Errorf("a publish over the edit: %v", err)
	}
	got, same, err := j.TakeOver(p.Context(), c, nightly, 1)
	if err != nil || same || got.Version != 2 || got.Nonce != cp.Nonce {
		p.Errorf("take: %+v, same is %v, %v", got, same, err)
	}
	publish(p.T, j, c, version(3, c))

	p.remove(nightly)
	if _, same, err := j.TakeOver(p.Context(), c, nightly, 3); err != nil || same {
		p.Errorf("take of what was deleted: same is %v, %v", same, err)
	}
	p.put(nightly, edited)
	publish(p.T, j, c, version(3, c))
	p.remove(nightly)
	publish(p.T, j, c, version(1, c))
}

// A standby has seen version 3; then an old backup is restored.
func wentBack(p *stage) {
	j := p.journal()
	c := p.lead(orders)
	publish(p.T, j, c, version(1, c))
	old := p.get(nightly)
	publish(p.T, j, c, version(2, c))
	publish(p.T, j, c, version(3, c))
	p.depose(orders)
	ran := false
	followed := make(chan struct{})
	runner := checkpoint.Runner[int]{
		Lead: fence.Lead{Elector: waits{p.elector, followed}, Resource: orders, Holder: "standby"},
		Journal: seen{j, func() {
			p.put(nightly, old)
			close(followed)
		}},
		Task: checkpoint.Task[int]{Name: nightly, Steps: []checkpoint.Step[int]{{
			Name: "only", Run: func(context.Context, int, checkpoint.Key) (int, error) {
				ran = true
				return 0, errors.New("it ran")
			},
		}}},
	}
	if _, err := runner.Run(p.Context()); !errors.Is(err, checkpoint.ErrConflict) || ran {
		p.Errorf("run: %v, a step ran: %v", err, ran)
	}
}

// waits is an elector whose campaigns begin after an event.
type waits struct {
	fence.Elector
	event <-chan struct{}
}

func (w waits) Campaign(ctx context.Context, r fence.Resource, holder string) (*fence.Term, error) {
	select {
	case <-w.event:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return w.Elector.Campaign(ctx, r, holder)
}

// seen is a journal that calls then after a follower has seen its first checkpoint.
type seen struct {
	checkpoint.Journal
	then func()
}

func (s seen) Follow(
	ctx context.Context, task checkpoint.Name, each func(checkpoint.Checkpoint) error,
) error {
	var once sync.Once
	return s.Journal.Follow(ctx, task, func(cp checkpoint.Checkpoint) error {
		err := each(cp)
		once.Do(s.then)
		return err
	})
}

func tooLarge(p *stage) {
	j := p.journal()
	c := p.lead(orders)
	cp := sized(p.T, 1, c, 200_000)
	publish(p.T, j, c, cp)
	err := j.Publish(p.Context(), c, sized(p.T, 2, c, 20<<20))
	if !errors.Is(err, checkpoint.ErrTooLarge) || errors.Is(err, checkpoint.ErrUnknown) {
		p.Errorf("publish returned %v", err)
	}
	stored(p.T, j, cp)
}

// There are more tasks than fit into one request.
func everyTask(p *stage) {
	j := p.journal()
	c := p.lead(orders)
	for n := range 40 {
		cp := version(1, c)
		cp.Task = checkpoint.Name(fmt.Sprintf("task:%02d", n))
		publish(p.T, j, c, cp)
	}
	all, err := j.Load(p.Context())
	if err != nil || len(all) != 40 || all[39].Task != "task:39" {
		p.Errorf("%d tasks, %v", len(all), err)
	}
}

func badNames(p *stage) {
	j := p.journal()
	c := p.lead(orders)
	for _, name := range []checkpoint.Name{"", ".", "..", "a/b", "/", "../issuer", "a b", "a=b"} {
		cp := version(1, c)
		cp.Task = name
		_, _, taken := j.TakeOver(p.Context(), c, name, 0)
		_, loaded := j.Load(p.Context(), name)
		for what, err := range map[string]error{
			"take": taken, "publish": j.Publish(p.Context(), c, cp), "load": loaded,
			"forget": j.Forget(p.Context(), c, name),
			"follow": j.Follow(p.Context(), name, func(checkpoint.Checkpoint) error { return nil }),
		} {
			if !errors.Is(err, checkpoint.ErrBadName) {
				p.Errorf("%s of %q: %v", what, name, err)
			}
		}
	}
	for _, r := range []fence.Resource{"", "..", "orders/x", "../elections/orders"} {
		stranger := c
		stranger.Resource = r
		cp := version(1, c)
		cp.Resource = r
		start := time.Now()
		err := j.Publish(p.Context(), stranger, cp)
		if !errors.Is(err, fence.ErrBadResource) || time.Since(start) > 5*time.Second {
			p.Errorf("publish for %q after %v: %v", r, time.Since(start), err)
		}
	}
}

func closed(p *stage) {
	a, b := p.open(), p.open()
	j, standby := p.in(a), p.in(b)
	c := p.lead(orders)
	publish(p.T, j, c, version(1, c))
	shown, ended := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		ended <- standby.Follow(p.Context(), nightly, func(checkpoint.Checkpoint) error {
			shown <- struct{}{}
			return nil
		})
	}()
	<-shown
	must.Report(p, errors.Join(a.Close(), b.Close()))
	if err := <-ended; err == nil || errors.Is(err, context.Canceled) {
		p.Errorf("follow ended with %v", err)
	}
	err := j.Publish(p.Context(), c, version(2, c))
	if err == nil || errors.Is(err, checkpoint.ErrUnknown) || errors.Is(err, checkpoint.ErrTransient) {
		p.Errorf("publish after close: %v", err)
	}
}
