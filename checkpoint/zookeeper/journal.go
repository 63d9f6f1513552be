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

// Options change how a Journal works; the zero value is good.
type Options struct {
	// Limit is how many bytes a checkpoint may have as JSON. Default 1,000,000; see the package
	// documentation before setting it higher.
	Limit int

	// SessionTimeout is asked of the ensemble for the journal's own connection. It is also how long
	// a call waits for an answer (2 s at least), and how often Follow looks for itself in case a
	// notice went missing. It has no part in safety. Default 10 s.
	SessionTimeout time.Duration

	// Logger is told of retries. Default: nothing is logged.
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

// Open connects to the ensemble with the URL form of the elections,
// zk://[user:password@]host[:port][,…][/root]. Host and root have to be those of the elections
// whose leaders publish.
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

// Close ends the connection. Calls that are under way end, a Publish with ErrUnknown; later ones
// fail.
func (j *Journal) Close() error { return j.client.Close() }

// Raise implements fence.Raiser: it makes sure that the claim leads. There is nothing to raise.
func (j *Journal) Raise(ctx context.Context, c fence.Claim) error {
	return answer(ctx, j.documents.Confirm(ctx, c))
}
