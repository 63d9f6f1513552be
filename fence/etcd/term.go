package etcd

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/backoff"
	"github.com/ringfence/ringfence/internal/cluster"
)

// win makes the term of a candidate that leads, and the goroutine that keeps it.
func (e *candidate) win(ctx context.Context, issuer fence.Issuer) (*fence.Term, error) {
	confirmed, err := e.s.renewed(ctx)
	if err != nil {
		return nil, err
	}
	claim := fence.Claim{Resource: e.resource, Token: e.token, Issuer: issuer, Holder: e.holder}
	term, keeper := fence.NewTerm(claim, confirmed, e.s.ttl, e)
	e.mu.Lock()
	e.keeper = keeper
	e.mu.Unlock()
	e.s.c.work.Go(func() { e.keep(term, keeper) }) // the campaign that calls is still counted
	return term, nil
}

// keep ends the term when its key is deleted, its session ends or the Coordinator is closed. The
// beats of the session confirm it. A term that is lost at etcd leaves nothing. One that its holder
// has given up, or that a store has superseded, keeps its place until Release: the holder is still
// draining.
func (e *candidate) keep(term *fence.Term, keeper *fence.Keeper) {
	ctx, stop := e.s.c.client.WithEnd(term.Context())
	defer stop()
	for failures := 1; term.State() != fence.Lost; failures++ {
		cause, err := e.lost(ctx)
		switch {
		case cause != nil:
			keeper.Lose(cause)
		case err != nil:
			backoff.Pause(ctx, backoff.After(failures, backoff.Least, backoff.Most))
		}
	}
	cause := context.Cause(term.Context())
	if errors.Is(cause, fence.ErrExpired) || errors.Is(cause, fence.ErrDeposed) {
		e.leave()
	}
}

// lost waits until the term is lost at etcd, and returns why. It returns nil when ctx ends, and an
// error when the watch failed.
func (e *candidate) lost(ctx context.Context) (cause, err error) {
	c := e.s.c
	watching, stop := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer stop()
	at, err := cluster.Ask(watching, c.client, "read the own candidate", e.position)
	switch {
	case errors.Is(err, cluster.ErrGone):
		return e.s.whyGone(watching), nil
	case err == nil:
		defer cluster.Calm(ctx)()
		select {
		case <-c.deletion(watching, e.key, at.revision+1):
			return nil, nil // read again: it was deleted, or the watch has failed
		case <-e.s.over:
		case <-ctx.Done():
		}
	}
	switch {
	case c.ctx.Err() != nil:
		return fmt.Errorf("%w: %w", fence.ErrResigned, ErrClosed), nil
	case e.s.ended() != nil:
		return e.s.ended(), nil
	}
	return nil, err
}

// Acknowledge implements fence.Backing.
func (e *candidate) Acknowledge(ctx context.Context) error {
	_, err := cluster.Ask(ctx, e.s.c.client, "acknowledge the term", func(ctx context.Context) (struct{}, error) {
		ready := cluster.Value{Holder: e.holder, Ready: true}.String()
		resp, err := e.s.c.client.Txn(ctx).If(e.exists()).
			Then(clientv3.OpPut(e.key, ready, clientv3.WithIgnoreLease())).Commit()
		if err == nil && !resp.Succeeded {
			err = cluster.ErrGone
		}
		return struct{}{}, err
	})
	if errors.Is(err, cluster.ErrGone) {
		return fence.ErrDeposed
	}
	return err
}

// Release implements fence.Backing: it deletes the candidate's key, which no other candidate ever
// has. If etcd does not answer, the session deletes the key as soon as it does, or the lease runs
// out.
func (e *candidate) Release(ctx context.Context) error {
	defer e.leave()
	if e.s.ended() != nil {
		return nil // the key is gone with the lease, or will be before anybody leads
	}
	_, err := cluster.Ask(ctx, e.s.c.client, "resign", func(ctx context.Context) (*clientv3.DeleteResponse, error) {
		return e.s.c.client.Delete(ctx, e.key)
	})
	if err == nil || errors.Is(err, ErrClosed) {
		return nil // Close revokes the lease
	}
	return fmt.Errorf("the candidate of %s=%s may stay until etcd answers or its lease runs out: %w",
		e.resource, e.token, err)
}
