// Package redis keeps checkpoints in Redis, in the database that has the marks: it is a
// checkpoint.Journal, for asynchronous steps. Redis has no transactions that a step's effects and
// its checkpoint could share.
//
//	ringfence:.checkpoint:<task>   a hash: version, resource, token, and the checkpoint as JSON
//	ringfence:.checkpoints         a set: the names of all tasks
//
// They are lost and kept together with the marks of store/redis, and nobody else may write to them.
// The channel ringfence:.checkpoint:<task> tells followers of each publish; who misses one looks
// for himself once a second.
//
// # Why no deposed leader publishes
//
// A publish is one script, with the check of store/redis in front: the mark is confirmed and is the
// leader's token, the task belongs to its resource, and the version before is stored; then it
// writes. Redis runs nothing else meanwhile. A repeated or stale publish changes nothing. A take is
// one script with the same check: what it reads is final for every older leader. See "Commands
// under a token" in store/redis.
//
// A publish is sent once. When its answer is lost it has landed, or not, or may land later, and the
// error says so.
//
// # What Redis may lose
//
// A checkpoint is as durable as Redis is set to make it, and no more: with appendfsync always it is
// on disk when Publish returns; with appendfsync everysec, the default, a crash may lose the last
// second of acknowledged checkpoints, and with asynchronous replicas a failover may lose more.
// Steps are then run again that had been published as done: they have to be idempotent, and must
// not count on the journal alone for once. Set maxmemory-policy noeviction, or Redis drops
// checkpoints when it is full. Where that will not do, keep the checkpoints in Postgres.
//
// What a leader sees of it:
//
//   - Redis was restarted: the mark counts as unconfirmed, and Take and Publish answer
//     fence.ErrNotLeader until the leader has raised it again, whether anything was lost or not.
//   - The stored version is below the leader's own: Publish answers ErrConflict, always, and
//     nothing is overwritten. Take returns the older checkpoint, or version 0 where all is gone:
//     who holds a higher version knows by this that the journal was set back, and must not take it
//     for a task that has never run.
//   - The marker is gone too (FLUSHALL, a Redis without persistence that was restarted): Take and
//     Publish answer fence.ErrNotInstalled. With a coordinator to ask (Options.Coordinator, or a
//     guard that has one) the next Raise makes it again; otherwise an operator has to (guard
//     install). A leader without a copy of its own then finds a task that was never published, and
//     begins it: only a copy elsewhere can tell it from a new one.
//
// # Rights
//
// The user of the journal's URL needs what ACL says: to read marks, not to write them. To raise the
// mark it needs a guard (Options.Raiser), or the guard's own rights.
//
// # Limits
//
// A checkpoint may have 1 MiB as JSON (Options.Limit). It is held in memory, and every publish
// writes all of it. Redis Cluster is refused: one script cannot be atomic there over mark and
// checkpoint.
package redis
