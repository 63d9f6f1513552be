package main

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/zookeeper"
	"github.com/ringfence/ringfence/internal/marks"
)

type openCoordinator func(ctx context.Context, url string, log *slog.Logger) (fence.Coordinator, error)

// coordinators is every coordinator there is, by the scheme of GUARD_COORDINATOR.
var coordinators = map[string]openCoordinator{
	"zk":   openZooKeeper,
	"etcd": openEtcd,
}

func openZooKeeper(ctx context.Context, url string, log *slog.Logger) (fence.Coordinator, error) {
	return zookeeper.Open(ctx, url, zookeeper.Options{Logger: log})
}

func openEtcd(context.Context, string, *slog.Logger) (fence.Coordinator, error) {
	return nil, errors.New("etcd is not built into this guard yet; use zk://")
}

func schemes() []string { return slices.Sorted(maps.Keys(coordinators)) }

// authority is who may raise marks, by the settings. Close ends its connections.
func (c *config) authority(log *slog.Logger) (marks.Authority, *observer) {
	if c.Coordinator.Reveal() == "" {
		return marks.Unverified{Name: fence.Issuer(c.Issuer)}, &observer{}
	}
	o := &observer{open: func(ctx context.Context) (fence.Coordinator, error) {
		co, err := coordinators[c.Coordinator.Scheme()](ctx, c.Coordinator.Reveal(), log)
		if err != nil {
			return nil, errors.New(c.Coordinator.Scrub(err.Error()))
		}
		return co, nil
	}}
	return marks.Elected{Observer: o}, o
}

// observer opens the coordinator when it is first asked for something and it answers: a guard has to start, and to say
// that it is not ready, while the coordinator is down.
type observer struct {
	open func(context.Context) (fence.Coordinator, error)

	mu     sync.Mutex
	opened fence.Coordinator
	closed bool
}

var errClosed = errors.New("the guard is shutting down")

func (o *observer) get(ctx context.Context) (fence.Coordinator, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
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

// Issuer is fence.Observer's.
func (o *observer) Issuer(ctx context.Context) (fence.Issuer, error) {
	co, err := o.get(ctx)
	if err != nil {
		return "", err
	}
	return co.Issuer(ctx)
}

// Candidates is fence.Observer's.
func (o *observer) Candidates(ctx context.Context, r fence.Resource) ([]fence.Candidate, error) {
	co, err := o.get(ctx)
	if err != nil {
		return nil, err
	}
	return co.Candidates(ctx, r)
}

// Leaders is fence.Observer's.
func (o *observer) Leaders(ctx context.Context, rs ...fence.Resource) (fence.Issuer, []fence.Candidate, error) {
	co, err := o.get(ctx)
	if err != nil {
		return "", nil, err
	}
	return co.Leaders(ctx, rs...)
}

// Watch is fence.Observer's.
func (o *observer) Watch(ctx context.Context, r fence.Resource, each func([]fence.Candidate) error) error {
	co, err := o.get(ctx)
	if err != nil {
		return err
	}
	return co.Watch(ctx, r, each)
}

// RenewIssuer makes the coordinator another issuer, where it can be.
func (o *observer) RenewIssuer(ctx context.Context) (fence.Issuer, error) {
	co, err := o.get(ctx)
	if err != nil {
		return "", err
	}
	r, ok := co.(interface {
		RenewIssuer(context.Context) (fence.Issuer, error)
	})
	if !ok {
		return "", errors.New("this coordinator's issuer cannot be renewed")
	}
	return r.RenewIssuer(ctx)
}

// Close closes the coordinator if it was opened.
func (o *observer) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	if o.opened == nil {
		return nil
	}
	return o.opened.Close()
}
