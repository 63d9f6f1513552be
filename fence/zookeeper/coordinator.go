package zookeeper

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/fence/internal/campaign"
	"github.com/ringfence/ringfence/fence/zookeeper/internal/ensemble"
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
	ErrClosed = campaign.ErrClosed
	// ErrUnreachable is returned if no server of the ensemble has answered in time.
	ErrUnreachable = campaign.ErrUnreachable
)

// Coordinator holds elections in one ensemble. Its methods may be called from any goroutine. Call
// Close when it is no longer needed.
type Coordinator struct {
	client    *ensemble.Client
	campaigns *campaign.Campaigns[*session, *candidate]
	entries   cache
	leaders   ensemble.Cache[leadership]
	documents *store

	// woken is for tests: a watch has woken a waiting candidate. It may be nil.
	woken func(r fence.Resource, holder string)
}

var _ documents.Coordinator = (*Coordinator)(nil)

// Open connects to the ensemble of the URL and makes sure that it has an issuer. The URL has the
// form
//
//	zk://[user:password@]host[:port][,host[:port]…][/root]
//	zks://…[?sslrootcert=FILE][&sslcert=FILE&sslkey=FILE]
//	zk[s]://user@…?password_file=FILE, or password_command=COMMAND
//
// The default port is 2181 and the default root /ringfence. Percent-encode user and password where
// needed. A password in a file, or of a command, is read again for each new session; to ZooKeeper
// another password is another user, which needs other ACLs (docs/operating.md). With credentials
// only this user can read and change the znodes that are created, without them everybody can. Open
// logs a warning if others can depose leaders or make candidates. It fails if no server answers
// within the session timeout, or if the ensemble refuses the credentials.
func Open(ctx context.Context, url string, o Options) (*Coordinator, error) {
	c, err := unopened(url, o)
	if err != nil {
		return nil, err
	}
	if _, err := c.Issuer(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	warnOfAccess(ctx, c.client)
	return c, nil
}

// unopened makes a Coordinator that has made no request yet.
func unopened(url string, o Options) (*Coordinator, error) {
	client, err := ensemble.New(url, o.SessionTimeout, o.Logger, refused)
	if err != nil {
		return nil, err
	}
	c := &Coordinator{client: client}
	c.documents = &store{Coordinator: c}
	c.campaigns = campaign.New(client.Frame, c.openSession)
	return c, nil
}

// refused reports an error that retrying cannot fix.
func refused(err error) bool {
	return ensemble.Denied(err) || errors.Is(err, errNotIssuer) || errors.Is(err, errShared)
}

// Campaign implements fence.Elector. While no server answers, it keeps trying. If ctx ends, the
// error contains the last failure.
func (c *Coordinator) Campaign(
	ctx context.Context, r fence.Resource, holder string,
) (*fence.Term, error) {
	return c.campaigns.Campaign(ctx, r, holder)
}

// Close loses the terms that were won through this Coordinator (their cause matches
// fence.ErrResigned), ends campaigns with ErrClosed, and waits for every goroutine. It does not
// wait for the holders' work, so resign first.
func (c *Coordinator) Close() error { return c.client.Close() }
