// Package coordinator keeps checkpoints in the coordinator that holds the elections, on every one
// that Ringfence has. It is a checkpoint.Journal for asynchronous steps, and needs no other store.
//
//	c, err := etcd.Open(ctx, "etcd://e1:2379,e2:2379,e3:2379/ringfence", etcd.Options{})
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//	journal := coordinator.New(c.Documents())
//
// A task's checkpoint is the document checkpoints/<task>, as JSON, with '=' for each ':' in the
// name.
//
// # Why no deposed leader publishes
//
// A publish is one change of documents under the leader's term. It is made only while the leader's
// candidate exists, and only if the document has the version that was read before. A candidate that
// is gone never comes back, and a newer claim leads only after the older candidates are gone. So
// all changes of older leaders come before all changes of the newer one, and one that was on its
// way changes nothing when it arrives. TakeOver reads the document under the term: no change of an
// older leader follows it. The packages of the coordinators say how each of them keeps this, and
// which of its limits a checkpoint has.
//
// There is no mark. Raise only confirms that the claim leads.
//
// # Lost answers
//
// A publish is sent once. If its answer is lost, Publish returns checkpoint.ErrUnknown, and the
// publish may also land later, while the claim leads and nobody writes another version. The Runner
// reads the checkpoint back with TakeOver and compares the nonce.
//
// # Edits by hand
//
// Stop the leaders of the task, and count the checkpoint's version up by one: journals and standbys
// know a checkpoint by its version. A leader that runs then gets checkpoint.ErrConflict. If the
// document is deleted, the task begins again with version 1.
//
// A coordinator that was wiped is another issuer, and refuses earlier claims. If it was restored
// from a backup and keeps its issuer, the checkpoints go back. A Runner that has seen a higher
// version runs nothing then.
package coordinator
