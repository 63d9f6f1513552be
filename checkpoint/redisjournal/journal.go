package redisjournal

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/store/redisstore"
)

// Options of a Journal. With the zero value, the journal raises the mark at its own URL and no
// coordinator confirms the claim.
type Options struct {
	// Coordinator confirms a claim before the journal raises the mark at its own URL. It must be
	// the coordinator of the election. See store/redisstore.Raiser.
	Coordinator elector.Observer
	// Raiser raises the mark instead: store/redisstore.Raiser with the URL of the guard, or of a user
	// with the guard's rights.
	Raiser fence.Raiser
	// Limit is the maximum size of a checkpoint as JSON, in bytes; 1 MiB when zero.
	Limit int
	// Poll is how often Follow polls for a newer checkpoint, in case a message was lost; 1 s when
	// zero.
	Poll time.Duration
}

// Journal keeps checkpoints in Redis. Close it.
type Journal struct {
	db          *driver.Client
	o           Options
	closeRaiser func() // does nothing if the raiser is the caller's
}

var _ checkpoint.Journal = (*Journal)(nil)

// Open makes a journal in the database of the URL redis[s]://user:password@host:port/db, or
// redis[s]://user@host:port/db?password_file=FILE or &password_command=COMMAND for a password that
// is read again for each new connection. It must be the URL of Redis itself, because a guard
// refuses access to Ringfence's keys. Open fails if the URL is malformed, or if the server answers
// and cannot keep checkpoints. It does not fail if the server does not answer or nothing is
// installed yet; calls return that.
func Open(ctx context.Context, url string, o Options) (*Journal, error) {
	db, err := redismarks.Connect(url, "ringfence-journal")
	if err != nil {
		return nil, err
	}
	if o.Limit == 0 {
		o.Limit = 1 << 20
	}
	if o.Poll == 0 {
		o.Poll = time.Second
	}
	closeRaiser := func() {}
	if o.Raiser == nil {
		own := redisstore.NewRaiser(url, o.Coordinator)
		o.Raiser, closeRaiser = own, own.Close
	}
	j := &Journal{db: db, o: o, closeRaiser: closeRaiser}
	var setup *fence.SetupError
	if err := read(ctx, db.Ping(ctx).Err()); errors.As(err, &setup) {
		j.Close()
		return nil, err
	}
	return j, nil
}

// Close ends the connections. Calls in progress end, a Publish with ErrUnknown; later calls fail.
func (j *Journal) Close() {
	_ = j.db.Close()
	j.closeRaiser()
}

// raiseLimit is how long an admission through a guard may take.
const raiseLimit = 10 * time.Second

// Raise implements fence.Raiser. If the mark is already raised to the claim, such as through a
// guard, it changes nothing. Older sessions have ended when it returns nil.
func (j *Journal) Raise(ctx context.Context, c fence.Claim) error {
	_, err := raisedScript.Run(ctx, j.db, c, nil)
	if err = read(ctx, err); !errors.Is(err, fence.ErrNotRaised) &&
		!errors.Is(err, fence.ErrNotInstalled) {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, raiseLimit)
	defer cancel()
	return raised(ctx, j.o.Raiser.Raise(bounded, c))
}

// TakeOver implements checkpoint.Journal with one script.
func (j *Journal) TakeOver(
	ctx context.Context, c fence.Claim, task checkpoint.Name, have int64,
) (checkpoint.Checkpoint, bool, error) {
	none := checkpoint.Checkpoint{Task: task}
	if _, err := checkpoint.ParseName(string(task)); err != nil {
		return none, false, err
	}
	list, err := j.run(ctx, takeScript, c, task, have)
	if err != nil {
		return none, false, read(ctx, err)
	}
	if text(list[0]) != "checkpoint" {
		return none, text(list[0]) == "same", scriptError(list, c, task)
	}
	cp, err := decode(task, text(list[1]), text(list[2]))
	return cp, false, err
}

// Publish implements checkpoint.Journal with one script. The package documentation says how durable
// the checkpoint is.
func (j *Journal) Publish(ctx context.Context, c fence.Claim, cp checkpoint.Checkpoint) error {
	document, err := j.encode(c, cp)
	if err != nil {
		return err
	}
	before, version := strconv.FormatInt(cp.Version-1, 10), strconv.FormatInt(cp.Version, 10)
	list, err := j.run(ctx, publishScript, c, cp.Task, before, version, document, string(cp.Task),
		channel(cp.Task))
	if err != nil {
		return answered(ctx, err)
	}
	return scriptError(list, c, cp.Task)
}

// Forget implements checkpoint.Journal with one script. It is as durable as a publish.
func (j *Journal) Forget(ctx context.Context, c fence.Claim, task checkpoint.Name) error {
	if _, err := checkpoint.ParseName(string(task)); err != nil {
		return fmt.Errorf("nothing has changed: %w", err)
	}
	list, err := j.run(ctx, forgetScript, c, task, string(task))
	if err != nil {
		return answered(ctx, err)
	}
	return scriptError(list, c, task)
}
