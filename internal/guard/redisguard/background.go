package redisguard

import (
	"context"
	"sync"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
)

// backgroundRaises continue the admissions that ran out of time: they raise the mark and end the
// older sessions, so that the newcomer gets in when it tries again. When scripts of an older leader
// keep Redis busy, each answer takes longer than all of these scripts together, and an admission
// that always starts from the beginning would never finish.
type backgroundRaises struct {
	admission *marks.Admission
	ctx       context.Context
	stop      context.CancelFunc
	wg        sync.WaitGroup

	mu      sync.Mutex
	running map[fence.Resource]*backgroundRaise
}

type backgroundRaise struct {
	token fence.Token
	stop  context.CancelFunc
}

// backgroundRaiseTime limits one background raise. The client's next try starts another one.
const backgroundRaiseTime = time.Minute

func newBackgroundRaises(a *marks.Admission) *backgroundRaises {
	ctx, stop := context.WithCancel(context.Background())
	return &backgroundRaises{
		admission: a, ctx: ctx, stop: stop, running: make(map[fence.Resource]*backgroundRaise),
	}
}

// close ends them all, and waits. A call on a control connection ends only with that connection,
// not with its context, so close also calls closeConnections.
func (b *backgroundRaises) close(closeConnections func()) {
	b.mu.Lock()
	b.stop()
	b.mu.Unlock()
	closeConnections()
	b.wg.Wait()
}

// start continues the claims of a session that has proved to be logged in. Each resource has at
// most one background raise, for the highest token.
func (b *backgroundRaises) start(who marks.Client, s marks.SessionID, claims []marks.Presented) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s == (marks.SessionID{}) || b.ctx.Err() != nil {
		return
	}
	for _, c := range claims {
		current := b.running[c.Resource]
		if current != nil && current.token.Compare(c.Token) >= 0 {
			continue
		}
		if current != nil {
			current.stop()
		}
		ctx, stop := context.WithTimeout(marks.WithClient(b.ctx, who), backgroundRaiseTime)
		started := &backgroundRaise{c.Token, stop}
		b.running[c.Resource] = started
		b.wg.Go(func() {
			defer b.finished(c.Resource, started)
			b.raise(ctx, s.User, c)
		})
	}
}

func (b *backgroundRaises) finished(r fence.Resource, started *backgroundRaise) {
	b.mu.Lock()
	defer b.mu.Unlock()
	started.stop()
	if b.running[r] == started {
		delete(b.running, r)
	}
}

// raise confirms with the Authority that the token leads now, as an admission does. The admission
// may not have come to the question whether the user may claim, so the store is asked that again.
// The result goes to the log and the metrics. The client learns it when it tries again.
func (b *backgroundRaises) raise(ctx context.Context, user string, c marks.Presented) {
	ctx, steps := marks.WithSteps(ctx)
	claims, err := b.admission.Authority.Verify(ctx, []marks.Presented{c})
	if err == nil {
		err = b.admission.RaiseFor(ctx, user, claims[0])
	}
	b.admission.Finish(ctx, steps, c.Under(""), err)
}
