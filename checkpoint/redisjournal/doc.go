// Package redisjournal keeps checkpoints in Redis, in the database that has the marks. It is a
// checkpoint.Journal for asynchronous steps: Redis has no transactions that a step's effects and
// its checkpoint could share.
//
//	journal, err := redisjournal.Open(ctx, "redis://app:password@cache.internal:6379/0", redisjournal.Options{
//		Raiser: redisstore.NewRaiser("redis://guard:7379", nil),
//	})
//	if err != nil {
//		return err
//	}
//	defer journal.Close()
//
// # Layout
//
//	ringfence:.checkpoint:<task>   a hash: version, resource, token, and the checkpoint as JSON
//	ringfence:.checkpoints         a set: the names of all tasks
//
// Nobody else may write to these keys. If Redis loses them, it usually loses the marks too. A
// message on the channel ringfence:.checkpoint:<task> tells followers of each publish; they also
// poll once a second (Options.Poll), in case a message is lost.
//
// # Why no deposed leader publishes
//
// A publish is one script. First it checks that the mark is confirmed and is the leader's token,
// that the task belongs to the claim's resource, and that the version before is stored. Then it
// writes. Redis runs nothing else meanwhile. A repeated or stale publish changes nothing. A take is
// one script with the same check of the mark, so what it reads is final for every older leader. See
// "Commands under a token" in store/redisstore.
//
// A publish is sent once. If its answer is lost, it has landed, has not landed, or may land later;
// the error (ErrUnknown) says so.
//
// # What Redis may lose
//
// Redis's settings decide how durable a checkpoint is. With appendfsync always it is on disk when
// Publish returns. With appendfsync everysec, the default, a crash may lose the last second of
// acknowledged checkpoints. With asynchronous replicas a failover may lose more. Then steps that
// were published as done run again, so they must be idempotent, and a forgotten checkpoint may be
// back. Set maxmemory-policy noeviction, or Redis drops checkpoints when it is full. If this is not
// enough, keep the checkpoints in Postgres.
//
// What a leader sees of a loss:
//
//   - Redis was restarted. The mark is unconfirmed, and TakeOver and Publish return
//     fence.ErrNotRaised until the leader has raised it again, whether or not anything was lost.
//   - The stored version is below the leader's own. Publish always returns ErrConflict and
//     overwrites nothing. TakeOver returns the older checkpoint, or version 0 if everything is
//     gone. A caller with a higher version must conclude that the journal was set back, not that
//     the task has never run.
//   - The marker is gone too, after FLUSHALL or after a restart of a Redis without persistence.
//     TakeOver and Publish return fence.ErrNotInstalled. With a coordinator (Options.Coordinator,
//     or that of a guard) the next Raise makes the marker again; otherwise an operator runs guard
//     install. A leader without a copy of its own then finds a task that was never published, and
//     begins it: only a copy elsewhere can tell it from a new one.
//
// # Rights
//
// ACL returns the rule for the user of the journal's URL. The user may read marks and not write
// them. To raise the mark, the journal needs a guard (Options.Raiser) or the guard's own rights.
//
// # Limits
//
// A checkpoint may have 1 MiB as JSON (Options.Limit). Redis holds it in memory, and every publish
// writes all of it. Redis Cluster is refused, because no script can be atomic there over both the
// mark and the checkpoint.
package redisjournal
