package etcd

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/cluster"
)

// Options of a Journal. The zero value has useful defaults.
type Options struct {
	// Limit is the maximum size of a checkpoint as JSON, in bytes. Default 1,500,000; read the
	// package documentation before you set a higher one.
	Limit int

	// RequestTimeout is how long a call waits for an answer (at least 2 s), and how often Follow
	// reads in case a notice was lost. Safety does not depend on it. Default 10 s.
	RequestTimeout time.Duration

	// Logger gets a message for each retry of Follow. Default: nothing is logged.
	Logger *slog.Logger
}

const (
	defaultLimit = 1_500_000
	// envelope is what a request has in addition to the checkpoint.
	envelope = 64 << 10
)

// Journal keeps checkpoints in etcd. Close it.
type Journal struct {
	client  *cluster.Client
	leading *cluster.Leading
	limit   int
	owners  owners
}

var _ checkpoint.Journal = (*Journal)(nil)

// Open connects to the cluster of the URL
// etcd://[user:password@]host[:port][,host[:port]…][/prefix], or etcds:// with TLS; fence/etcd has
// the details. Cluster and prefix must be those of the elections whose leaders publish.
func Open(ctx context.Context, url string, o Options) (*Journal, error) {
	return open(ctx, url, o, nil)
}

// open is Open. change is for tests.
func open(
	ctx context.Context, url string, o Options, change func(*clientv3.Config),
) (*Journal, error) {
	a, err := cluster.ParseURL(url)
	if err != nil {
		return nil, err
	}
	if o.Limit <= 0 {
		o.Limit = defaultLimit
	}
	c, err := cluster.Open(ctx, a, cluster.Options{
		Timeout: o.RequestTimeout, MaxRequest: o.Limit + envelope, Logger: o.Logger, Change: change,
	})
	if err != nil {
		return nil, err
	}
	j := &Journal{client: c, leading: cluster.NewLeading(c), limit: o.Limit}
	if err := j.reach(ctx); err != nil {
		_ = j.Close()
		return nil, fmt.Errorf("open the journal at %s: %w", c.Hosts, err)
	}
	return j, nil
}

// reach returns nil once a member has answered a linearizable read. It creates the issuer if there
// is none.
func (j *Journal) reach(ctx context.Context) error {
	_, err := cluster.Ask(ctx, j.client, "read the issuer", func(
		ctx context.Context,
	) (fence.Issuer, error) {
		resp, err := j.client.Txn(ctx).Then(clientv3.OpGet(j.client.IssuerKey())).Commit()
		if err != nil {
			return "", err
		}
		return j.client.ReadIssuer(ctx, resp, 0)
	})
	return err
}

// Close ends the connection. Calls in progress end, a Publish with ErrUnknown; later calls fail.
func (j *Journal) Close() error { return j.client.Close() }

// Raise implements fence.Raiser. There is no mark to raise; it confirms that the claim leads.
func (j *Journal) Raise(ctx context.Context, c fence.Claim) error {
	if _, err := fence.ParseResource(string(c.Resource)); err != nil {
		return err
	}
	_, err := cluster.Ask(ctx, j.client, "confirm "+c.String(), func(
		ctx context.Context,
	) (string, error) {
		return j.leading.Find(ctx, c)
	})
	return answer(ctx, err)
}

// candidate returns the key of the claim's candidate. The claim led when it was first looked up.
func (j *Journal) candidate(ctx context.Context, c fence.Claim) (string, error) {
	key, err := j.leading.LookUp(ctx, c)
	return key, answer(ctx, err)
}

// wellFormed checks what becomes a part of a key.
func wellFormed(c fence.Claim, task checkpoint.Name) error {
	if _, err := checkpoint.ParseName(string(task)); err != nil {
		return err
	}
	_, err := fence.ParseResource(string(c.Resource))
	return err
}

// key returns the key of a task's checkpoint.
func (j *Journal) key(task checkpoint.Name) string { return j.client.Checkpoints() + string(task) }
