package fencetest

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/fence/documents/documentstest"
	"github.com/ringfence/ringfence/fence/elector"
)

// ErrClosed is returned by calls on a closed Client.
var ErrClosed = errors.New("the coordinator client is closed")

// Client is one process's view of a Memory. Cut, Heal, Expire and LoseReply make it fail.
type Client struct {
	m    *Memory
	ctx  context.Context // ends at Close
	stop context.CancelFunc

	documents *documentstest.Memory

	terms sync.WaitGroup // campaigns and the keepers of terms

	// The Memory's mu guards the rest.
	cut       bool
	loseReply bool
	closed    bool
	entries   map[*entry]bool
	left      []*entry // to be removed at Heal
}

var _ documents.Coordinator = (*Client)(nil)

// Documents implements documents.Coordinator. They are a *documentstest.Memory, which loses replies
// of its own.
func (c *Client) Documents() documents.Store { return c.documents }

// leads refuses a claim that does not lead now.
func (m *Memory) leads(c fence.Claim) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	refuse := func(why fence.Reason) error {
		return &fence.Refusal{
			Reason: why, Claim: c, Message: c.String() + " does not lead",
			Detail: "nothing was changed", Hint: "campaign for a new token",
		}
	}
	queue := m.elections[c.Resource]
	at := slices.IndexFunc(queue, func(e *entry) bool { return e.Token == c.Token })
	switch {
	case c.Issuer != m.issuer:
		return refuse(fence.ErrOtherIssuer)
	case at == 0:
		return nil
	case at > 0, c.Token > m.counter:
		return refuse(fence.ErrNotLeader)
	default:
		return refuse(fence.ErrStale)
	}
}

// Open makes a client. Close it.
func (m *Memory) Open() *Client {
	ctx, stop := context.WithCancelCause(context.Background())
	c := &Client{m: m, ctx: ctx, stop: func() { stop(ErrClosed) }, entries: map[*entry]bool{}}
	c.documents = m.documents.Client(ctx, m.leads)
	return c
}

// Cut lets no round trip of this client through until Heal.
func (c *Client) Cut() {
	c.set(func() { c.cut = true })
	c.documents.Cut()
}

// Heal undoes Cut.
func (c *Client) Heal() {
	c.set(func() {
		c.cut = false
		for _, e := range c.left {
			c.m.remove(e)
		}
		c.left = nil
	})
	c.documents.Heal()
}

// LoseReply makes the next enrolment of this client succeed without a reply.
func (c *Client) LoseReply() { c.set(func() { c.loseReply = true }) }

// Expire ends the sessions of this client at the coordinator.
func (c *Client) Expire() {
	c.set(func() {
		for e := range c.entries {
			if !e.gone {
				e.expired = true
				c.m.remove(e)
			}
		}
	})
}

func (c *Client) set(fault func()) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	fault()
	c.m.tell()
}

// Close implements elector.Coordinator. The sessions end with it; if the client is cut off, they
// expire later.
func (c *Client) Close() error {
	c.set(func() { c.closed = true })
	c.stop()
	c.terms.Wait()
	c.set(func() {
		for e := range c.entries {
			if !c.cut {
				c.m.remove(e)
			}
		}
		clear(c.entries)
	})
	return nil
}

// Issuer implements elector.Coordinator.
func (c *Client) Issuer(ctx context.Context) (issuer fence.Issuer, err error) {
	err = c.patiently(ctx, func() { issuer = c.m.issuer })
	return issuer, err
}

// RenewIssuer implements elector.Coordinator. Elections and their terms stay.
func (c *Client) RenewIssuer(ctx context.Context) (issuer fence.Issuer, err error) {
	err = c.patiently(ctx, func() {
		c.m.issuer = newIssuer()
		issuer = c.m.issuer
	})
	return issuer, err
}

// Candidates implements elector.Coordinator.
func (c *Client) Candidates(
	ctx context.Context, r fence.Resource,
) (queue []elector.Candidate, err error) {
	if _, err := fence.ParseResource(string(r)); err != nil {
		return nil, err
	}
	err = c.patiently(ctx, func() { queue = c.m.queue(r) })
	return queue, err
}

// Leaders implements elector.Coordinator.
func (c *Client) Leaders(
	ctx context.Context, rs ...fence.Resource,
) (issuer fence.Issuer, leaders []elector.Candidate, err error) {
	for _, r := range rs {
		if _, err := fence.ParseResource(string(r)); err != nil {
			return "", nil, err
		}
	}
	err = c.patiently(ctx, func() {
		issuer, leaders = c.m.issuer, make([]elector.Candidate, len(rs))
		for i, r := range rs {
			if queue := c.m.queue(r); len(queue) > 0 {
				leaders[i] = queue[0]
			}
		}
	})
	return issuer, leaders, err
}

// Watch implements elector.Coordinator.
func (c *Client) Watch(
	ctx context.Context, r fence.Resource, each func([]elector.Candidate) error,
) error {
	if _, err := fence.ParseResource(string(r)); err != nil {
		return err
	}
	var told []elector.Candidate
	for first := true; ; first = false {
		var queue []elector.Candidate
		var changed chan struct{}
		err := c.patiently(ctx, func() { queue, changed = c.m.queue(r), c.m.changed })
		if err != nil {
			return err
		}
		if first || !slices.Equal(queue, told) {
			if err := each(slices.Clone(queue)); err != nil {
				return err
			}
			told = queue
		}
		if err := c.wait(ctx, changed); err != nil {
			return err
		}
	}
}

// Depose implements elector.Coordinator.
func (c *Client) Depose(
	ctx context.Context, r fence.Resource, token fence.Token,
) (found bool, err error) {
	if _, err := fence.ParseResource(string(r)); err != nil {
		return false, err
	}
	err = c.patiently(ctx, func() {
		i := slices.IndexFunc(c.m.elections[r], func(e *entry) bool { return e.Token == token })
		if found = i >= 0; found {
			c.m.remove(c.m.elections[r][i])
		}
	})
	return found, err
}

// queue copies an election. The caller holds mu.
func (m *Memory) queue(r fence.Resource) []elector.Candidate {
	queue := make([]elector.Candidate, 0, len(m.elections[r]))
	for i, e := range m.elections[r] {
		candidate := e.Candidate
		candidate.Ready = candidate.Ready && i == 0
		queue = append(queue, candidate)
	}
	return queue
}

// roundTrip does one thing at the coordinator, or returns errCut or ErrClosed.
func (c *Client) roundTrip(do func()) error {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	switch {
	case c.closed:
		return ErrClosed
	case c.cut:
		return errCut
	}
	do()
	return nil
}

// patiently makes a round trip, and waits while the client is cut off.
func (c *Client) patiently(ctx context.Context, do func()) error {
	for {
		c.m.mu.Lock()
		changed := c.m.changed
		c.m.mu.Unlock()
		if err := c.roundTrip(do); !errors.Is(err, errCut) {
			return err
		}
		if err := c.wait(ctx, changed); err != nil {
			return err
		}
	}
}

// wait returns nil when changed is closed.
func (c *Client) wait(ctx context.Context, changed <-chan struct{}) error {
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.ctx.Done():
		return ErrClosed
	}
}
