// Package etcd keeps checkpoints in the etcd cluster that also holds the elections. It is a
// checkpoint.Journal for asynchronous steps. It needs no other store and no mark: the fence is the
// leader's candidate in the election.
//
//	url := "etcd://e1:2379,e2:2379,e3:2379/ringfence"
//	journal, err := etcd.Open(ctx, url, etcd.Options{})
//	if err != nil {
//		return err
//	}
//	defer journal.Close()
//
// Each task has a key, <prefix>/checkpoints/<task>, with the checkpoint as JSON.
//
// # Why no deposed leader publishes
//
// A publish is one etcd transaction. It checks that the leader's candidate, whose create revision
// is the token, still exists, that the issuer is the claim's, and that the stored version is the
// one before. Then it writes the checkpoint.
//
// etcd orders all transactions, and a create revision is a position in that order. So:
//
//  1. A claim leads while its candidate exists and no candidate with a lower create revision does.
//     Later candidates have higher ones. A candidate that is gone never comes back, because its key
//     contains a random text, and the token would be another. So a claim that has led once leads
//     until its candidate is gone. The journal looks a claim up once. This lookup refuses a
//     candidate that waits in the queue, although its key exists too.
//  2. The checks and the write of a publish happen at one position in the order, or nothing does.
//  3. A newer claim leads only after the older candidates are gone. So all writes of older leaders
//     come before the end of their candidates, and that comes before all writes of the newer
//     leader. A write that was on its way, or whose sender was paused, fails its check when it
//     arrives.
//  4. Take reads the candidate and the checkpoint in one linearizable transaction, so by 3 no write
//     of an older leader comes after it. A member that lags behind or has lost its cluster cannot
//     answer it.
//
// A deletion (Forget) is such a transaction, too, and compares the create revision of the task's key.
//
// None of this relies on a clock or on the lease of the term. Raise has no mark to raise. It
// confirms, with a linearizable read, that the claim leads.
//
// # Lost answers
//
// A publish is sent once. If its answer is lost, Publish returns ErrUnknown, and the publish may
// also land later, while the claim leads and nobody writes another version. The Runner reads the
// checkpoint back with Take and compares the nonce. "Database space exceeded" is ErrUnknown too,
// because etcd can write and return this error.
//
// # Versions
//
// A checkpoint's version is the version of its key, whatever the JSON says: both count writes, and
// each publish is one write. If an operator edits the key, that is a new version, which followers
// see. If an operator deletes it, the task begins again with version 1.
//
// A cluster that was wiped or rebuilt is another issuer, and refuses the claims of before. If it
// was restored from a snapshot and keeps its issuer, the checkpoints go back. A Runner that has
// seen a higher version runs nothing then; see fence/etcd for what an operator does.
//
// # Limits
//
// A checkpoint may have 1,500,000 bytes as JSON (Options.Limit). etcd's own limit for a request,
// --max-request-bytes, is 1,572,864 bytes by default. A checkpoint above the journal's limit is
// refused with ErrTooLarge and not sent. If a member's limit is lower, the member refuses it; this
// is ErrTooLarge too, and the error names the setting.
//
// etcd keeps every version of a key until it is compacted, and all of them count for its quota
// (--quota-backend-bytes, 2 GiB by default). A task that publishes 1 MB each second fills it in
// half an hour. Keep the state small and large data elsewhere, and let etcd compact:
// --auto-compaction-mode=periodic --auto-compaction-retention=5m.
//
// A publish costs one write of the cluster: a majority has it on disk before etcd answers.
//
// # Access
//
// The user needs what elections need: read and write below <prefix>/. Without authentication in
// etcd, everybody who reaches it can write checkpoints.
package etcd
