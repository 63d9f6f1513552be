package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/coordinators"
	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/marks"
)

// authority returns the authority that the settings choose. Close the observer to end its
// connections.
func (c *config) authority(log *slog.Logger) (marks.Authority, *observer) {
	if c.Coordinator == "" {
		return marks.Unverified{Name: fence.Issuer(c.Issuer)}, newObserver(nil)
	}
	o := newObserver(func(ctx context.Context) (elector.Coordinator, error) {
		return coordinators.All.Open(ctx, c.Coordinator, coordinators.Options{Logger: log})
	})
	elected := marks.Elected{Observer: o}
	if c.Outage == "keep" {
		return &marks.Keeping{Elected: elected, OnOutage: func(claim fence.Claim, why error) {
			log.Warn("the coordinator does not answer; tokens that led when it last did are admitted",
				"resource", claim.Resource, "token", claim.Token.String(), "err", c.scrub(why.Error()))
		}}, o
	}
	return elected, o
}

// readiness returns what the guard needs of the coordinator. With keep it admits known leaders
// without it.
func (c *config) readiness(o *observer) guard.Readiness {
	if c.Coordinator == "" {
		return guard.Readiness{}
	}
	return guard.Readiness{
		Needed: c.Outage == "refuse",
		Coordinator: func(ctx context.Context) error {
			_, err := o.Issuer(ctx)
			if err == nil {
				return nil
			}
			return errors.New(c.scrub(err.Error()))
		},
	}
}

// observer opens the coordinator at the first request, and again until that succeeds: a guard has
// to start, and to report that it is not ready, while the coordinator is down.
type observer struct {
	open func(context.Context) (elector.Coordinator, error)

	turn   chan struct{} // has room for the one who may use the rest
	opened elector.Coordinator
	closed bool
}

func newObserver(open func(context.Context) (elector.Coordinator, error)) *observer {
	return &observer{open: open, turn: make(chan struct{}, 1)}
}

var errClosed = errors.New("the guard is shutting down")

// get returns the coordinator. While another request opens it, this one waits as long as it may.
func (o *observer) get(ctx context.Context) (elector.Coordinator, error) {
	select {
	case o.turn <- struct{}{}:
		defer func() { <-o.turn }()
	case <-ctx.Done():
		return nil, fmt.Errorf("the coordinator has not been reached yet: %w", context.Cause(ctx))
	}
	if o.closed {
		return nil, errClosed
	}
	if o.opened == nil {
		co, err := o.open(ctx)
		if err != nil {
			return nil, err
		}
		o.opened = co
	}
	return o.opened, nil
}

// ask calls f with the coordinator.
func ask[T any](
	ctx context.Context, o *observer, f func(elector.Coordinator) (T, error),
) (answer T, err error) {
	co, err := o.get(ctx)
	if err != nil {
		return answer, err
	}
	return f(co)
}

// These implement elector.Observer and elector.IssuerRenewer.

func (o *observer) Issuer(ctx context.Context) (fence.Issuer, error) {
	return ask(ctx, o, func(co elector.Coordinator) (fence.Issuer, error) { return co.Issuer(ctx) })
}

func (o *observer) Candidates(ctx context.Context, r fence.Resource) ([]elector.Candidate, error) {
	return ask(ctx, o, func(co elector.Coordinator) ([]elector.Candidate, error) {
		return co.Candidates(ctx, r)
	})
}

func (o *observer) Leaders(
	ctx context.Context, rs ...fence.Resource,
) (issuer fence.Issuer, all []elector.Candidate, err error) {
	all, err = ask(ctx, o, func(co elector.Coordinator) (all []elector.Candidate, err error) {
		issuer, all, err = co.Leaders(ctx, rs...)
		return all, err
	})
	return issuer, all, err
}

func (o *observer) Watch(
	ctx context.Context, r fence.Resource, each func([]elector.Candidate) error,
) error {
	_, err := ask(ctx, o, func(co elector.Coordinator) (struct{}, error) {
		return struct{}{}, co.Watch(ctx, r, each)
	})
	return err
}

func (o *observer) RenewIssuer(ctx context.Context) (fence.Issuer, error) {
	return ask(ctx, o, func(co elector.Coordinator) (fence.Issuer, error) {
		return co.RenewIssuer(ctx)
	})
}

// Close closes the coordinator if it was opened.
func (o *observer) Close() error {
	o.turn <- struct{}{}
	defer func() { <-o.turn }()
	o.closed = true
	if o.opened == nil {
		return nil
	}
	return o.opened.Close()
}
