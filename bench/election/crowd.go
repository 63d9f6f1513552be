package election

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
)

// election is one with many candidates: first those in processes of their own, which will be
// killed, and then the crowd in this process.
type election struct {
	resource fence.Resource
	won      chan win
	work     *errgroup.Group
	ctx      context.Context // ends with the first failure of a candidate
	stop     context.CancelFunc

	victims []*child
	crowd   []elector.Coordinator
}

// win is the beginning of a term.
type win struct {
	at     time.Time
	leader *candidate // nil for a victim
}

// candidate is one of the crowd.
type candidate struct {
	resign chan struct{}
	again  chan struct{} // stand for election again
}

func newElection(ctx context.Context, resource string) *election {
	ctx, stop := context.WithCancel(ctx)
	e := &election{resource: fence.Resource(resource), won: make(chan win, 64), stop: stop}
	e.work, e.ctx = errgroup.WithContext(ctx)
	return e
}

// addVictim starts a process that stands for election.
func (e *election) addVictim(url string, timeout time.Duration) error {
	c, err := startChild(url, string(e.resource), timeout)
	if err != nil {
		return err
	}
	e.victims = append(e.victims, c)
	e.work.Go(func() error {
		err := c.says(e.ctx, "leads")
		if err == nil {
			e.won <- win{at: time.Now()}
		}
		return err
	})
	return c.campaign(1)
}

// openAtOnce is how many of the crowd connect at the same time.
const openAtOnce = 64

// addCrowd opens the coordinators, and lets the candidates stand for election.
func (e *election) addCrowd(url string, candidates, coordinators int, timeout time.Duration) error {
	e.crowd = make([]elector.Coordinator, coordinators)
	var opening errgroup.Group
	opening.SetLimit(openAtOnce)
	for i := range coordinators {
		opening.Go(func() (err error) {
			c, err := open(e.ctx, url, timeout)
			if err != nil {
				return err
			}
			e.crowd[i] = c
			for n := i; n < candidates; n += coordinators {
				one := &candidate{resign: make(chan struct{}), again: make(chan struct{})}
				e.work.Go(func() error { return e.stand(one, c) })
			}
			return nil
		})
	}
	return opening.Wait()
}

// stand is the life of one of the crowd. It leads until it is told to resign, and then waits until
// it is told to stand again.
func (e *election) stand(one *candidate, c elector.Coordinator) error {
	for {
		term, err := c.Campaign(e.ctx, e.resource, "bench:1")
		if e.ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		e.won <- win{time.Now(), one}
		select {
		case <-one.resign:
		case <-term.Context().Done():
			return fmt.Errorf("a term has ended in the middle: %w", context.Cause(term.Context()))
		case <-e.ctx.Done():
			return nil
		}
		if err := term.Resign(e.ctx); err != nil {
			return err
		}
		select {
		case <-one.again:
		case <-e.ctx.Done():
			return nil
		}
	}
}

// next waits for the next term.
func (e *election) next() (win, error) {
	select {
	case w := <-e.won:
		return w, nil
	case <-e.ctx.Done():
		return win{}, errors.Join(errors.New("nobody leads"), context.Cause(e.ctx))
	}
}

// close ends all candidates.
func (e *election) close() error {
	e.stop()
	err := e.work.Wait()
	for _, c := range e.victims {
		c.Kill()
	}
	var closing errgroup.Group
	for _, c := range e.crowd {
		if c != nil {
			closing.Go(c.Close)
		}
	}
	if closed := closing.Wait(); err == nil || errors.Is(err, context.Canceled) {
		err = closed
	}
	return err
}
