package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/zookeeper"
)

// electorOptions is what every coordinator is opened with.
type electorOptions struct {
	SessionTimeout time.Duration
	Log            *slog.Logger
}

type openElector func(ctx context.Context, url string, o electorOptions) (fence.Coordinator, error)

// electors is every coordinator there is, by the scheme of LEADER_COORDINATOR.
var electors = map[string]openElector{
	"zk":   openZooKeeper,
	"etcd": openEtcd,
}

func openZooKeeper(ctx context.Context, url string, o electorOptions) (fence.Coordinator, error) {
	c, err := zookeeper.Open(ctx, url, zookeeper.Options{SessionTimeout: o.SessionTimeout, Logger: o.Log})
	if err != nil {
		return nil, err // and no interface around a nil pointer
	}
	return c, nil
}

func openEtcd(context.Context, string, electorOptions) (fence.Coordinator, error) {
	return nil, errors.New("etcd is not built into this leader yet; use zk://")
}

// coordinator opens the one of the settings. Its error has no secret in it.
func (p *program) coordinator(ctx context.Context, c *config, log *slog.Logger) (fence.Coordinator, error) {
	o := electorOptions{SessionTimeout: c.SessionTimeout, Log: log}
	coordinator, err := p.electors[c.Coordinator.Scheme()](ctx, c.Coordinator.Reveal(), o)
	if err != nil {
		return nil, errors.New(c.Coordinator.Scrub(err.Error()))
	}
	return coordinator, nil
}
