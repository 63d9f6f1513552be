package agent

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ringfence/ringfence/cmd/internal/webpage"
	"github.com/ringfence/ringfence/cmd/leader/internal/carrier"
	"github.com/ringfence/ringfence/cmd/leader/internal/stores"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/network/peeruser"
)

// term is one candidacy, and the term that comes of it.
type term struct {
	agent    *Agent
	id       string
	resource fence.Resource
	holder   string
	stores   []fence.Raiser
	own      []fence.Raiser // those of stores that only this term uses
	routes   []carrier.Route
	cancel   context.CancelCauseFunc
	out      *stream
	client   client

	sending sync.Mutex // one event after the other
	lost    sync.Once

	mu    sync.Mutex
	shown Event // what GET /v1/terms has
}

// run stands for election, holds the term, and returns when it is over and resigned.
func (t *term) run(ctx context.Context) {
	over, stop := t.tellWaiting(ctx)
	lead := fence.Lead{
		Elector: won{t.agent.Coordinator, over}, Resource: t.resource, Holder: t.holder, Stores: t.stores,
	}
	err := lead.Run(ctx, func(ctx context.Context, won *fence.Term) error {
		return t.hold(ctx, won, stop)
	})
	stop()
	switch cause := context.Cause(ctx); {
	case cause != nil && !errors.Is(err, cause):
		err = errors.Join(cause, err)
	case err == nil:
		err = errGone
	}
	t.lose(err)
}

// lose tells the client that the term is over, unless it was told.
func (t *term) lose(err error) {
	t.lost.Do(func() {
		cause, text := causeOf(err), oneLine(err)
		if hint := stores.Hint(err); hint != "" {
			text += " (" + hint + ")"
		}
		t.send(Event{Event: Lost, Cause: cause, Final: cause.final(), Error: text})
		t.agent.Log.Info("a term is over", "resource", string(t.resource), "holder", t.holder, "cause",
			oneLine(err))
	})
}

// hold tells the client about the term, until it is over. It tells the end before the agent
// resigns, so that the client can stop before the next one leads. ready is called before the client
// is told that it leads.
func (t *term) hold(ctx context.Context, won *fence.Term, ready func()) error {
	c := won.Claim()
	carried, err := t.carry(ctx, c)
	if err != nil {
		return err
	}
	defer carried.Close()
	if err := won.Wait(ctx); err != nil {
		return err
	}
	ready()
	t.send(Event{
		Event: Leading, Token: c.Token.String(), Issuer: c.Issuer,
		Carry: carry(c, len(t.stores) > 0, carried),
	}.within(won))
	t.agent.Log.Info("leading", "resource", string(t.resource), "holder", t.holder, "token",
		c.Token.String())
	alive := time.NewTimer(t.pace(won))
	defer alive.Stop()
	told, due := fence.Active, false
	for {
		// it looks at the clock: after a pause, alive may fire before the term's own timer
		state, changed := won.Watch()
		switch {
		case ctx.Err() != nil, state == fence.Lost:
			err := cmp.Or(context.Cause(ctx), context.Cause(won.Context()))
			t.lose(err)
			return err
		case state == fence.Suspended && told != state:
			t.send(Event{Event: Suspended}.within(won))
		case state == fence.Active && told != state:
			t.send(Event{Event: Resumed}.within(won))
		case state == fence.Active && due:
			t.send(Event{Event: Alive}.within(won))
		case due && !t.client.goesOn():
			t.cancel(errSilent)
		}
		if told = state; due {
			alive.Reset(t.pace(won))
		}
		due = false
		select {
		case <-changed:
		case <-ctx.Done():
		case <-alive.C:
			due = true
		}
	}
}

// pace is the time until the deadline is told again: a third of a session, which may be shorter
// than the agent has asked for, and less while the deadline is near.
func (t *term) pace(won *fence.Term) time.Duration {
	return min(t.client.left(), max(shortest, min(t.agent.Session, time.Until(won.Deadline()))/3))
}

const shortest = 20 * time.Millisecond // between two events of one kind

// pause is the time until a candidate is told again that it waits.
func (t *term) pause() time.Duration { return min(t.client.left(), t.agent.Session/3) }

// carry opens what LEADER_CARRY asks for.
func (t *term) carry(ctx context.Context, c fence.Claim) (*carrier.Carrier, error) {
	ctx, cancel := context.WithTimeout(ctx, t.agent.Raise)
	defer cancel()
	return carrier.Open(ctx, t.routes, c, peeruser.OnlyUser(t.agent.User), t.agent.Log)
}

// send sends an event. If the client does not take it, or has not read in time, the term ends.
func (t *term) send(e Event) {
	t.sending.Lock()
	defer t.sending.Unlock()
	e.ID, e.Resource, e.Holder = t.id, t.resource, t.holder
	goesOn := t.client.goesOn()
	if !goesOn && e.Event != Lost {
		t.cancel(errSilent)
		return
	}
	t.show(e)
	patience := min(webpage.Patience, t.client.left()) // the next candidate waits
	if err := t.out.send(string(e.Event), e, patience); err != nil {
		t.cancel(errors.Join(errGone, err))
	}
	t.client.sent(cmp.Or(e.Until, time.Now().Add(t.agent.Session)))
}

// show keeps what a list has: the last state, with the token once there is one.
func (t *term) show(e Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.Token == "" {
		e.Token, e.Issuer = t.shown.Token, t.shown.Issuer
	}
	if e.Event == Alive || e.Event == Resumed {
		e.Event = Leading
	}
	e.Carry = nil
	t.shown = e
}

func (t *term) listed() Event {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.shown
}
