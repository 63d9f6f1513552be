package redis

import (
	"context"
	"errors"
	"strconv"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
	redisstore "github.com/ringfence/ringfence/internal/marks/redis"
	leader "github.com/ringfence/ringfence/store/redis"
)

// Options of a Journal. The zero value raises the mark at the journal's own URL and takes claims at
// their word.
type Options struct {
	// Coordinator is asked before the mark is raised at the journal's own URL: the one that the
	// terms are won at. See store/redis.Raiser.
	Coordinator fence.Observer
	// Raiser raises the mark instead: store/redis.Raiser with the URL of the guard, or of a user
	// with the guard's rights.
	Raiser fence.Raiser
	// Limit is the most bytes of a checkpoint as JSON, 1 MiB when zero.
	Limit int
	// Poll is how often Follow looks for a newer checkpoint that it was not told of; 1 s when zero.
	Poll time.Duration
}

// Journal keeps checkpoints in Redis. Close it.
type Journal struct {
	db *driver.Client
	o  Options
}

var _ checkpoint.Journal = (*Journal)(nil)

// Open makes a journal in the database of the URL redis[s]://user:password@host:port/db, which is
// Redis itself: a guard lets nobody near the keys of ringfence. It fails for a URL that cannot be
// read and for a server that answers and cannot keep checkpoints. One that does not answer, or
// where nothing is installed yet, is no error: calls say so.
func Open(ctx context.Context, url string, o Options) (*Journal, error) {
	db, err := redisstore.Connect(url, "ringfence-journal")
	if err != nil {
		return nil, err
	}
	if o.Limit == 0 {
		o.Limit = 1 << 20
	}
	if o.Poll == 0 {
		o.Poll = time.Second
	}
	if o.Raiser == nil {
		o.Raiser = leader.Raiser{URL: url, Coordinator: o.Coordinator}
	}
	j := &Journal{db: db, o: o}
	var setup *fence.SetupError
	if err := read(ctx, db.Ping(ctx).Err()); errors.As(err, &setup) {
		j.Close()
		return nil, err
	}
	return j, nil
}

// Close ends the connections. Calls that are under way end, a Publish with ErrUnknown; later ones
// fail.
func (j *Journal) Close() { _ = j.db.Close() }

// raiseLimit is as long as an admission through a guard may take.
const raiseLimit = 10 * time.Second

// Raise is fence.Raiser's. Where the mark is raised to the claim already, such as through a guard,
// it only looks. Older sessions have ended when it returns nil.
func (j *Journal) Raise(ctx context.Context, c fence.Claim) error {
	_, err := raisedScript.Run(ctx, j.db, c, nil)
	if err = read(ctx, err); !errors.Is(err, fence.ErrNotLeader) &&
		!errors.Is(err, fence.ErrNotInstalled) {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, raiseLimit)
	defer cancel()
	return raised(ctx, j.o.Raiser.Raise(bounded, c))
}

// Take is checkpoint.Journal's: one script.
func (j *Journal) Take(
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
		return none, text(list[0]) == "same", judged(list, c, task)
	}
	cp, err := decode(task, text(list[1]), text(list[2]))
	return cp, false, err
}

// Publish is checkpoint.Journal's: one script. How durable it is, is Redis' affair: see the package
// documentation.
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
	return judged(list, c, cp.Task)
}
