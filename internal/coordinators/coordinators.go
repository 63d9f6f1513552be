// Package coordinators opens the coordinator that a URL names. The table All is the one place where
// both programs learn which coordinators there are: a new one is a line in it.
//
//	c, err := coordinators.All.Open(ctx, cfg.Coordinator, coordinators.Options{Logger: log})
//
// Nothing registers itself, so what a binary knows can be read here.
package coordinators

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/etcd"
	"github.com/ringfence/ringfence/fence/zookeeper"
	"github.com/ringfence/ringfence/internal/settings"
)

// Options is what every coordinator is opened with.
type Options struct {
	SessionTimeout time.Duration // 0: the coordinator's own default
	Logger         *slog.Logger
}

// Open connects to the coordinator at a URL. Its error may quote the URL's password.
type Open func(ctx context.Context, url string, o Options) (fence.Coordinator, error)

// Table maps the scheme of a URL to what opens it.
type Table map[string]Open

// All is every coordinator there is.
var All = Table{
	"zk":    openZooKeeper,
	"etcd":  openEtcd,
	"etcds": openEtcd,
}

func openZooKeeper(ctx context.Context, url string, o Options) (fence.Coordinator, error) {
	c, err := zookeeper.Open(ctx, url, zookeeper.Options{SessionTimeout: o.SessionTimeout, Logger: o.Logger})
	if err != nil {
		return nil, err // and no interface around a nil pointer
	}
	return c, nil
}

func openEtcd(ctx context.Context, url string, o Options) (fence.Coordinator, error) {
	c, err := etcd.Open(ctx, url, etcd.Options{SessionTimeout: o.SessionTimeout, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Schemes lists the schemes there are, sorted.
func (t Table) Schemes() []string { return slices.Sorted(maps.Keys(t)) }

// Open opens the coordinator at u. Close it. Its error has no secret in it; for a scheme that is
// not in the table it names those that are.
func (t Table) Open(ctx context.Context, u settings.URL, o Options) (fence.Coordinator, error) {
	open, known := t[u.Scheme()]
	if !known {
		return nil, fmt.Errorf("there is no coordinator %s://; there is %s://", u.Scheme(), strings.Join(t.Schemes(), "://, "))
	}
	c, err := open(ctx, u.Reveal(), o)
	if err != nil {
		return nil, errors.New(u.Scrub(err.Error()))
	}
	return c, nil
}
