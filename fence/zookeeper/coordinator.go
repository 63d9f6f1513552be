package zookeeper

import (
	"context"
	"log/slog"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/ensemble"
	"github.com/ringfence/ringfence/internal/ensemble/election"
)

// Options change how a Coordinator works; the zero value is good.
type Options struct {
	// SessionTimeout is asked of the ensemble, which grants what lies within its own limits (2 to
	// 20 ticks, unless set otherwise). It is how long a crashed leader holds up the next. Default
	// 10 s.
	SessionTimeout time.Duration

	// Logger is told of retries, and at debug level of what the ZooKeeper library says. Default:
	// nothing is logged.
	Logger *slog.Logger
}

var (
	// ErrClosed is returned by calls on a closed Coordinator.
	ErrClosed = ensemble.ErrClosed
	// ErrUnreachable is returned when no server of the ensemble has answered in time.
	ErrUnreachable = ensemble.ErrUnreachable
)

// Coordinator holds elections in one ensemble. Its methods may be called from any goroutine. Close
// it.
type Coordinator struct {
	client  *ensemble.Client
	entries election.Cache
	leaders ensemble.Cache[leadership]

	// for tests: a waiting candidate was woken by a watch; nil outside
	woken func(r fence.Resource, holder string)
}

var _ fence.Coordinator = (*Coordinator)(nil)

// Open connects to the ensemble that the URL names and makes sure that it has an issuer. The form
// is
//
//	zk://[user:password@]host[:port][,host[:port]…][/root]
//
// with port 2181 and root /ringfence when left out, user and password percent-encoded where needed.
// With credentials only this user can read and change the znodes that are created, otherwise
// everybody can; Open warns the logger of others who can depose leaders or make candidates. It
// fails when no server answers within the session timeout, or when the ensemble refuses the
// credentials.
func Open(ctx context.Context, url string, o Options) (*Coordinator, error) {
	client, err := election.Open(ctx, url, o.forClient())
	if err != nil {
		return nil, err
	}
	return &Coordinator{client: client}, nil
}

func (o Options) forClient() ensemble.Options {
	return ensemble.Options{SessionTimeout: o.SessionTimeout, Logger: o.Logger}
}

// Close loses the terms that were won here (their cause matches fence.ErrResigned), ends the
// campaigns with ErrClosed, and waits for every goroutine. It does not wait for the holders' work:
// resign first.
func (c *Coordinator) Close() error { return c.client.Close() }
