package pgjournal

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/postgres/pglisten"
)

// channel is the channel of notices about publishes. The payload is the task's name.
const channel = "ringfence_checkpoint"

// noticePause is the minimum time between two batches of notices. Notices do not go into the steps'
// transactions: NOTIFY holds a lock of the whole database during COMMIT, so no two steps could
// commit at once.
const noticePause = 50 * time.Millisecond

// queueNotice queues a notice. If the queue is full, it drops the notice; standbys poll anyway.
func (j *Journal) queueNotice(task checkpoint.Name) {
	select {
	case j.news <- task:
	default:
	}
}

// sendNotices sends the queued notices until ctx ends: the first one at once, later ones in
// batches.
func (j *Journal) sendNotices(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case first := <-j.news:
			j.notify(ctx, j.gather(first))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(noticePause):
		}
	}
}

// gather returns first and everything else in the queue.
func (j *Journal) gather(first checkpoint.Name) []checkpoint.Name {
	tasks := []checkpoint.Name{first}
	for {
		select {
		case n := <-j.news:
			tasks = append(tasks, n)
		default:
			slices.Sort(tasks)
			return slices.Compact(tasks)
		}
	}
}

// notify sends one notice for each task. If a notice is lost, the standby finds out at its next
// poll.
func (j *Journal) notify(ctx context.Context, tasks []checkpoint.Name) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, _ = j.pool.Exec(ctx,
		`select pg_catalog.pg_notify($1, t) from pg_catalog.unnest($2::pg_catalog.text[]) as t`,
		channel, texts(tasks))
}

// Follow implements checkpoint.Journal with LISTEN, and polls every Options.Poll. It holds one
// connection of the pool. Through a pooler in transaction mode no notices arrive, and only polling
// works.
func (j *Journal) Follow(
	ctx context.Context, task checkpoint.Name, each func(checkpoint.Checkpoint) error,
) error {
	f := follower{Journal: j, task: task, each: each}
	for {
		err := f.listen(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case f.failed != nil:
			return f.failed
		case err != nil:
			if err := answered(ctx, err, fence.Claim{}); !errors.Is(err, checkpoint.ErrTransient) {
				return err
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(j.o.Poll):
		}
	}
}

// follower is one call of Follow.
type follower struct {
	*Journal
	task    checkpoint.Name
	each    func(checkpoint.Checkpoint) error
	version int64
	failed  error // of each
}

// listen follows over one connection until it breaks.
func (f *follower) listen(ctx context.Context) error {
	conn, err := f.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, "listen "+channel); err != nil {
		return err
	}
	defer func() { // the connection goes back to the pool, without the LISTEN
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if _, err := conn.Exec(bounded, "unlisten "+channel); err != nil {
			_ = conn.Conn().Close(bounded)
		}
	}()
	for {
		if err := f.look(ctx, conn); err != nil {
			return err
		}
		if err := f.await(ctx, conn.Conn()); err != nil {
			return err
		}
	}
}

// await returns at a notice of this task, or when it is time to poll.
func (f *follower) await(ctx context.Context, conn *pgx.Conn) error {
	bounded, cancel := context.WithTimeout(ctx, f.o.Poll)
	defer cancel()
	for {
		n, err := conn.WaitForNotification(bounded)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && conn.IsClosed():
			return err
		case err != nil:
			return pglisten.CatchUp(ctx, conn)
		case n.Payload == string(f.task):
			return nil
		}
	}
}

// look calls each with a newer checkpoint. It reads over the connection that it has, because a
// small pool may have no other one.
func (f *follower) look(ctx context.Context, conn *pgxpool.Conn) error {
	found, err := load(ctx, conn, f.task)
	if err != nil || len(found) == 0 || found[0].Version <= f.version {
		return err
	}
	f.version = found[0].Version
	f.failed = f.each(found[0])
	return f.failed
}
