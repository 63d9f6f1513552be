package zookeeper

import (
	"context"
	"log/slog"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/ensemble"
	"github.com/ringfence/ringfence/internal/ensemble/election"
)

// Options of a Journal. The zero value has useful defaults.
type Options struct {
	// Limit is the maximum size of a checkpoint as JSON, in bytes. Default 1,000,000; read the
	// package documentation before you set a higher one.
	Limit int

	// SessionTimeout is the timeout that the journal requests for its own session. It is also how
	// long a call waits for an answer (at least 2 s), and how often Follow polls in case a watch
	// was lost. Safety does not depend on it. Default 10 s.
	SessionTimeout time.Duration

	// Logger gets a message for each retry. Default: nothing is logged.
	Logger *slog.Logger
}

const defaultLimit = 1_000_000

// Journal keeps checkpoints in ZooKeeper. Close it.
type Journal struct {
	client    *ensemble.Client
	documents *documents
	owners    owners
}

var _ checkpoint.Journal = (*Journal)(nil)

// Open connects to the ensemble of the URL zk://[user:password@]host[:port][,…][/root]. Ensemble
// and root must be those of the elections whose leaders publish.
func Open(ctx context.Context, url string, o Options) (*Journal, error) {
	if o.Limit <= 0 {
		o.Limit = defaultLimit
	}
	c, err := election.Open(ctx, url, ensemble.Options{
		SessionTimeout: o.SessionTimeout, MaxData: o.Limit, Logger: o.Logger,
	})
	if err != nil {
		return nil, err
	}
	return &Journal{client: c, documents: newDocuments(c, "checkpoints", o.Limit)}, nil
}

// Close ends the connection. Calls in progress end, a Publish with ErrUnknown; later calls fail.
func (j *Journal) Close() error { return j.client.Close() }

// Raise implements fence.Raiser. There is no mark to raise; it confirms that the claim leads.
func (j *Journal) Raise(ctx context.Context, c fence.Claim) error {
	return answer(ctx, j.documents.Confirm(ctx, c))
}
