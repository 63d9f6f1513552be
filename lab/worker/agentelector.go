package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/ringfence/ringfence/fence"
	terms "github.com/ringfence/ringfence/fence/elector"
)

// agentEvent is what the worker reads of an event, as docs/agent.md has it.
type agentEvent struct {
	Event  string
	Token  string
	Issuer fence.Issuer
	Carry  struct{ Pass string }
	Until  time.Time
	Cause  string
	Error  string
}

// agentElector asks the agent of its machine for terms: each is a stream of events (docs/agent.md).
type agentElector struct {
	deposesNobody
	w      *worker
	client *http.Client
}

// leadByAgent keeps both ledgers under terms of an agent, until ctx ends.
func (w *worker) leadByAgent(ctx context.Context) error {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", w.c.Agent)
	}
	e := &agentElector{
		w: w, client: &http.Client{Transport: &http.Transport{
			DialContext: dial, DisableKeepAlives: true,
		}},
	}
	defer w.watches.Wait()
	return w.ledger(ctx, nil, &recordingElector{Elector: e, w: w})
}

// Campaign implements fence.Elector.
func (e *agentElector) Campaign(
	ctx context.Context, r fence.Resource, holder string,
) (*fence.Term, error) {
	for ctx.Err() == nil {
		term, err := e.stand(ctx, r, holder)
		if err == nil {
			return term, nil
		}
		if ctx.Err() == nil {
			e.w.note("the agent: %v", err)
		}
		pause(ctx, retry)
	}
	return nil, context.Cause(ctx)
}

// stand opens one stream, and returns its term.
func (e *agentElector) stand(
	ctx context.Context, r fence.Resource, holder string,
) (*fence.Term, error) {
	open, closeStream := context.WithCancel(context.WithoutCancel(ctx))
	release := context.AfterFunc(ctx, closeStream) // until it leads
	defer release()
	s := &stream{close: closeStream}
	leading, err := s.ask(open, e.client, map[string]string{"resource": string(r), "holder": holder})
	if err != nil || !release() {
		closeStream()
		return nil, errors.Join(err, context.Cause(ctx))
	}
	claim := fence.Claim{Resource: r, Issuer: leading.Issuer, Holder: holder}
	if claim.Token, err = fence.ParseToken(leading.Token); err != nil {
		closeStream()
		return nil, err
	}
	claim.Candidate = candidateIn(leading.Carry.Pass)
	term, keeper := terms.NewTerm(claim, e.confirmed(leading), e.w.c.Session, s)
	s.reading.Go(func() { s.follow(e, keeper) })
	return term, nil
}

// confirmed returns the time for which Confirm gives the deadline that the agent has told.
func (e *agentElector) confirmed(told agentEvent) time.Time {
	return time.Now().Add(time.Until(told.Until) - e.w.c.Session)
}

// stream is the agent's side of a term.
type stream struct {
	close   context.CancelFunc
	events  *json.Decoder
	reading sync.WaitGroup
}

// ask sends the request, and returns the event that says that the program leads.
func (s *stream) ask(
	ctx context.Context, client *http.Client, asked map[string]string,
) (leading agentEvent, err error) {
	body, err := json.Marshal(asked)
	if err != nil {
		return leading, err
	}
	request, err := http.NewRequestWithContext(ctx, "POST", "http://agent/v1/terms",
		bytes.NewReader(body))
	if err != nil {
		return leading, err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(request) //nolint:bodyclose // the end of ctx closes it
	if err != nil {
		return leading, err
	}
	if answer.StatusCode != http.StatusOK {
		return leading, fmt.Errorf("POST /v1/terms: %s", answer.Status)
	}
	s.events = json.NewDecoder(answer.Body)
	for {
		var e agentEvent
		if err := s.events.Decode(&e); err != nil {
			return leading, err
		}
		switch e.Event {
		case "leading":
			return e, nil
		case "lost":
			return leading, fmt.Errorf("%s: %s", e.Cause, e.Error)
		}
	}
}

// follow tells the term's keeper what the agent tells, until the stream ends.
func (s *stream) follow(e *agentElector, k *terms.Keeper) {
	for {
		var told agentEvent
		if err := s.events.Decode(&told); err != nil {
			k.Lose(fmt.Errorf("%w: the stream has ended: %w", fence.ErrExpired, err))
			return
		}
		switch told.Event {
		case "suspended":
			k.Suspend()
		case "alive", "resumed":
			k.Confirm(e.confirmed(told))
		case "lost":
			k.Lose(fmt.Errorf("%w: the agent: %s", lostBy(told.Cause), told.Error))
			return
		}
	}
}

func lostBy(cause string) error {
	if cause == "deposed" {
		return fence.ErrDeposed
	}
	return fence.ErrExpired
}

// Acknowledge implements terms.Backing: the agent has said that it leads.
func (s *stream) Acknowledge(context.Context) error { return nil }

// Release implements terms.Backing.
func (s *stream) Release(context.Context) error {
	s.close()
	s.reading.Wait()
	return nil
}
