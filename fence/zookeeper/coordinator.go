package zookeeper

import (
	"context"
	"log/slog"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/campaign"
	"github.com/ringfence/ringfence/internal/ensemble"
	"github.com/ringfence/ringfence/internal/ensemble/election"
)

// Options of a Coordinator. The zero value has useful defaults.
type Options struct {
	// SessionTimeout is the timeout that the coordinator requests. The ensemble grants a value
	// within its own limits, by default 2 to 20 ticks. After a crash of the leader, the next one
	// waits that long. Default 10 s.
	SessionTimeout time.Duration

	// Logger gets a message for each retry, and at debug level the messages of the ZooKeeper
	// library. Default: nothing is logged.
	Logger *slog.Logger
}

var (
	// ErrClosed is returned by calls on a closed Coordinator.
	ErrClosed = ensemble.ErrClosed
	// ErrUnreachable is returned if no server of the ensemble has answered in time.
	ErrUnreachable = ensemble.ErrUnreachable
)

// Coordinator holds elections in one ensemble. Its methods may be called from any goroutine. Call
// Close when it is no longer needed.
type Coordinator struct {
	client    *ensemble.Client
	campaigns *campaign.Campaigns[*session, *candidate]
	entries   election.Cache
	leaders   ensemble.Cache[leadership]
	documents *store

	// woken is for tests: a watch has woken a waiting candidate. It may be nil.
	woken func(r fence.Resource, holder string)
}

var _ fence.Coordinator = (*Coordinator)(nil)

// Open connects to the ensemble of the URL and makes sure that it has an issuer. The URL has the
// form
//
//	zk://[user:password@]host[:port][,host[:port]…][/root]
//
// The default port is 2181 and the default root /ringfence. Percent-encode user and password where
// needed. With credentials only this user can read and change the znodes that are created, without
// them everybody can. Open logs a warning if others can depose leaders or make candidates. It fails
// if no server answers within the session timeout, or if the ensemble refuses the credentials.
func Open(ctx context.Context, url string, o Options) (*Coordinator, error) {
	client, err := election.Open(ctx, url, o.forClient())
	if err != nil {
		return nil, err
	}
	return newCoordinator(client), nil
}

func newCoordinator(client *ensemble.Client) *Coordinator {
	c := &Coordinator{client: client, documents: &store{client, election.NewLeading(client)}}
	c.campaigns = campaign.New(campaign.Options[*session]{
		Open: c.openSession, Closed: client.Context(), Go: client.Go, Refused: election.Refused,
		Failure: client.LastFailure, Log: client.Log(),
	})
	return c
}

func (o Options) forClient() ensemble.Options {
	return ensemble.Options{SessionTimeout: o.SessionTimeout, Logger: o.Logger}
}

// Close loses the terms that were won through this Coordinator (their cause matches
// fence.ErrResigned), ends campaigns with ErrClosed, and waits for every goroutine. It does not
// wait for the holders' work, so resign first.
func (c *Coordinator) Close() error { return c.client.Close() }
