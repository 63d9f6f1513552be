// Package jobs hands work out to a changing set of workers. A job that a worker has not ended when it
// is gone goes to another one; a worker that was only thought gone publishes nothing and, at fenced
// stores, writes nothing.
//
//	queue, err := jobs.New(coordinator, "settlement") // fence/zookeeper, fence/etcd, fence/postgres
//	id, err := queue.Submit(ctx, jobs.Spec{Kind: "settle", Payload: merchant, Retries: 3})
//	status, err := queue.Wait(ctx, id)
//
//	worker := jobs.Worker{Queue: queue, Name: host, Stores: stores, Handlers: map[string]jobs.Handler{
//		"settle": func(ctx context.Context, r *jobs.Run) (any, error) {
//			pool, err := postgres.Pool(ctx, r.Term, config) // store/postgres: under the job's token
//			…
//		},
//	}}
//	err = worker.Run(ctx)
//
// # What is promised
//
// A job that Submit has accepted ends: done, failed or cancelled, as long as there is a worker for its
// kind and labels. It runs at least once. It runs again after a failure, if its Spec says so, and when
// its worker was gone before the end was published. Two jobs with the same resource never run at once,
// as far as fenced stores can tell. Use a checkpoint task in the handler, named after the job, so that
// the next worker goes on where the last one stopped.
//
// # How jobs are handed out
//
// Workers are the members of a group. They elect one among themselves that assigns; it is a worker
// like any other. The documents of a group are
//
//	jobs/GROUP/statuses/<id>              where the job is: the one document that decides
//	jobs/GROUP/specs/<id>                 what was handed in
//	jobs/GROUP/waiting/<entry>            in the order in which jobs are assigned
//	jobs/GROUP/assigned/<member>/<id>.<attempt>   what a worker watches
//	jobs/GROUP/workers/<member>           a worker that may have assignments
//	jobs/GROUP/draining/<member>          a worker that takes no more
//	jobs/GROUP/cancel/<id>                somebody has asked to cancel a running job
//	jobs/GROUP/unique/<hash of the key>   the unfinished job that has it
//	jobs/GROUP/finished/<time>.<id>       when the status may be forgotten
//
// Each step of a job's life changes several of them at once (documents.Store), and replaces the status
// that its author has read. So of two steps from the same status only one is made:
//
//	submit      creates the status, the spec and the entry
//	assign      by the one who assigns, under its term
//	start       by the worker, under the job's own term
//	finish      by the worker, under the job's own term, in the same attempt
//	give back   by a worker that stops; or under the term of the one who assigns, once the worker is
//	            no member any more
//
// A worker also gives a job back, with the error in its status, if it is elected and cannot begin for
// some time, such as when a store does not answer. A job does not go back at once to the worker that
// gave it back.
//
// A job whose resource another assigned job has is passed over until that has ended. So it holds no slot
// of a worker, unless somebody else leads the resource: another group, or a program.
//
// When a finished job is forgotten, the one who assigns first deletes what is left of the election for
// a resource that the job made up (fence.Forgetter). Its mark stays in each store, because some who
// refuse a late worker know nothing else; so do checkpoints.
//
// The one who assigns reads which workers may have assignments before it reads who is a member, so a
// worker that is missing is gone for good: IDs of members are never used again. It takes back what
// such workers had, whenever they left, and needs no memory of its predecessor.
//
// # Limits
//
// A waiting job costs its entry in each list of waiting jobs that the one who assigns gets: some 45
// bytes. A job with a resource of its own leaves a mark in each store of its worker, about 1 kB in
// Postgres, for good. Who has very many jobs names a resource for what they write, such as a merchant. ZooKeeper's default limit for an answer, 1 MB, is reached at some 20,000 waiting jobs. Who
// needs millions of queued jobs uses a queue made for that, and carries its attempts under the fence.
package jobs
