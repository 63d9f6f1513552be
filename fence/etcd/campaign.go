package etcd

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/backoff"
	"github.com/ringfence/ringfence/internal/cluster"
)

// Campaign implements fence.Elector. While no member answers it keeps trying; if ctx ends then, the
// error has the last failure.
func (c *Coordinator) Campaign(
	ctx context.Context, r fence.Resource, holder string,
) (*fence.Term, error) {
	if _, err := fence.ParseResource(string(r)); err != nil {
		return nil, err
	}
	if err := c.begin(); err != nil {
		return nil, err
	}
	defer c.work.Done()
	ctx, stop := c.client.WithEnd(ctx)
	defer stop()
	var last error
	for failures := 0; ctx.Err() == nil; {
		term, enrolled, err := c.try(ctx, r, holder)
		switch {
		case err == nil:
			return term, nil
		case cluster.Refused(err):
			return nil, fmt.Errorf("campaign for %s: %w", r, err)
		case ctx.Err() != nil:
			continue // err is the end of ctx
		case enrolled:
			failures = 0
		}
		failures, last = failures+1, err
		wait := backoff.After(failures, backoff.Least, backoff.Most)
		c.log.Warn("campaign starts again", "resource", r, "holder", holder, "error", err, "in", wait)
		backoff.Pause(ctx, wait)
	}
	if last != nil {
		return nil, fmt.Errorf("campaign for %s: %w (last failure: %w)", r, context.Cause(ctx), last)
	}
	return nil, fmt.Errorf("campaign for %s: %w", r, context.Cause(ctx))
}

// try is one candidate: it wins, or leaves.
func (c *Coordinator) try(
	ctx context.Context, r fence.Resource, holder string,
) (_ *fence.Term, enrolled bool, err error) {
	s, err := c.sessionOf(ctx)
	if err != nil {
		return nil, false, err
	}
	e, err := s.enrol(ctx, r, holder)
	if err != nil {
		return nil, false, err
	}
	issuer, err := e.await(ctx)
	if err != nil {
		e.leave()
		return nil, true, err
	}
	term, err := e.win(ctx, issuer)
	if err != nil {
		e.leave()
		return nil, true, err
	}
	return term, true, nil
}

// enrol creates the key of a candidate. The session knows the key before etcd does, so that a sweep
// spares it; an enrolment that fails leaves it to the sweep.
func (s *session) enrol(ctx context.Context, r fence.Resource, holder string) (*candidate, error) {
	e := &candidate{s: s, resource: r, holder: holder, key: s.c.client.CandidateKey(r, s.lease)}
	s.mu.Lock()
	s.keys[e.key] = e
	s.mu.Unlock()
	token, err := cluster.Ask(ctx, s.c.client, "enrol in the election of "+string(r), e.create)
	if err != nil {
		e.leave()
		return nil, err
	}
	s.mu.Lock()
	e.token = token
	s.mu.Unlock()
	return e, nil
}

// create returns the token. An earlier try whose reply was lost has created the key already: it is
// found, not made twice.
func (e *candidate) create(ctx context.Context) (fence.Token, error) {
	resp, err := e.s.c.client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(e.key), "=", 0)).
		Then(clientv3.OpPut(e.key, cluster.Value{Holder: e.holder}.String(), clientv3.WithLease(e.s.lease))).
		Else(clientv3.OpGet(e.key)).
		Commit()
	switch {
	case err != nil:
		return 0, err
	case resp.Succeeded:
		return fence.Token(resp.Header.Revision), nil
	}
	return fence.Token(resp.Responses[0].GetResponseRange().Kvs[0].CreateRevision), nil
}
