package redis

import (
	"context"
	"sync"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
)

// pursuits go on with admissions that have run out of time: they raise the mark and end the older sessions, so that the
// newcomer gets in when it tries again. Where scripts of an older leader keep Redis busy, each answer takes longer than
// they do together, and an admission that begins anew each time would never come to its end.
type pursuits struct {
	admission *marks.Admission
	ctx       context.Context
	stop      context.CancelFunc
	all       sync.WaitGroup

	mu  sync.Mutex
	now map[fence.Resource]*pursuit
}

type pursuit struct {
	token fence.Token
	stop  context.CancelFunc
}

// pursuitTime bounds one pursuit. The client's next try begins another one.
const pursuitTime = time.Minute

func newPursuits(a *marks.Admission) *pursuits {
	ctx, stop := context.WithCancel(context.Background())
	return &pursuits{admission: a, ctx: ctx, stop: stop, now: make(map[fence.Resource]*pursuit)}
}

// end ends them all, and waits. What is asked on a control connection ends with that, not with its context.
func (p *pursuits) end(connections func()) {
	p.mu.Lock()
	p.stop()
	p.mu.Unlock()
	connections()
	p.all.Wait()
}

// begin goes on with the claims of a session that has proved to be logged in, unless that is done already. There is one
// for each resource, for the highest token.
func (p *pursuits) begin(s marks.Session, claims []marks.Presented) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range claims {
		before := p.now[c.Resource]
		if s == (marks.Session{}) || p.ctx.Err() != nil || before != nil && before.token.Compare(c.Token) >= 0 {
			continue
		}
		if before != nil {
			before.stop()
		}
		ctx, stop := context.WithTimeout(p.ctx, pursuitTime)
		this := &pursuit{c.Token, stop}
		p.now[c.Resource] = this
		p.all.Go(func() {
			defer p.ended(c.Resource, this)
			p.pursue(ctx, c)
		})
	}
}

func (p *pursuits) ended(r fence.Resource, this *pursuit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	this.stop()
	if p.now[r] == this {
		delete(p.now, r)
	}
}

// pursue asks whether the token leads now, as an admission does. What it comes to is in the log and the metrics; the client
// hears of it when it tries again.
func (p *pursuits) pursue(ctx context.Context, c marks.Presented) {
	ctx, steps := marks.WithSteps(ctx)
	claims, err := p.admission.Authority.Verify(ctx, []marks.Presented{c})
	if err == nil {
		err = p.admission.Raise(ctx, claims[0])
	}
	p.admission.Finish(steps, c.Under(""), err)
}
