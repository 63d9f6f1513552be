// Package jobs hands work out to a changing set of workers. When a worker is gone, its jobs go to
// others. If it was only paused, its results are discarded, and once the next worker has the job,
// fenced stores refuse its writes.
//
//	queue, err := jobs.New(coordinator, "settlement") // of any package fence/…
//	id, err := jobs.Submit(ctx, queue, "settle", Merchant{17}, job.Spec{Retries: 3})
//	status, err := queue.Wait(ctx, id)
//
//	worker := jobs.Worker{Queue: queue, Name: host, Stores: stores}
//	jobs.Handle(&worker, "settle", func(ctx context.Context, r *jobs.Run, m Merchant) (Receipt, error) {
//		pool, err := pgstore.NewPool(ctx, r.Term, config) // under the job's token
//		…
//	})
//	err = worker.Run(ctx)
//
// Package job has the types Spec, Status and ID. Operators look at a group with package queueview.
//
// # What is promised
//
// A job that Submit has accepted ends: done, failed or cancelled, as long as there is a worker for
// its kind and labels. It runs at least once. It runs again after a failure, if its Spec says so,
// and when its worker was gone before the end was published. Two jobs with the same resource never
// run at once, as far as fenced stores can tell. A job that is cancelled, or has failed, because
// its worker was gone has no next worker: what that one still writes is refused from the next term
// of the resource on, such as that of Spec.CleanUp.
//
// Use a checkpoint task in the handler, named after the job, so that the next worker goes on where
// the last one stopped. A task belongs to one resource, so one that several jobs go on with needs a
// Spec.Resource.
//
// # How jobs are handed out
//
// Workers are the members of a group. They elect one among themselves, the assigner, which is a
// worker like any other. The documents of a group are
//
//	jobs/GROUP/statuses/<id>              where the job is: the one document that decides
//	jobs/GROUP/specs/<id>                 what was handed in
//	jobs/GROUP/waiting/<entry>            in the order in which jobs are assigned
//	jobs/GROUP/assigned/<member>/<id>.<attempt>   what a worker watches
//	jobs/GROUP/workers/<member>           a worker that may have assignments
//	jobs/GROUP/draining/<member>          a worker that takes no more
//	jobs/GROUP/offers/<hash of the offer>   kinds and labels of workers that are too long for a member
//	jobs/GROUP/cancel/<id>                somebody has asked to cancel a running job
//	jobs/GROUP/unique/<hash of the key>   the unfinished job that has it
//	jobs/GROUP/resources/<number>         the job that has this numbered resource
//	jobs/GROUP/finished/<time>.<bytes>.<id>.<state>   when the status may be forgotten
//	jobs/GROUP/peeks/<id>.<random>        somebody wants to see what a running job has brought so far
//
// Each step of a job's life changes several of them at once (documents.Store), and replaces the
// status that its author has read. So of two steps from the same status only one is made:
//
//	submit      creates the status, the spec and the entry
//	assign      by the assigner, under its term
//	start       by the worker, under the job's own term
//	finish      by the worker, under the job's own term, in the same attempt
//	give back   by a worker that stops; or under the term of the assigner, once the worker is
//	            no member any more
//
// A job that comes back keeps its place among those that wait, so it goes on soon. A worker also
// gives a job back, with the error in its status, if it is elected and cannot begin for some time,
// such as when a store does not answer; then it goes to the end. A job does not go back at once to
// the worker that gave it back.
//
// A job whose resource another assigned job has is passed over until that has ended. So it holds no
// slot of a worker, unless somebody else leads the resource: another group, or a program.
//
// Anybody may pause a job, resume it, or have one that waits for its time run now. That changes
// nothing of the status but Paused and Due, and moves the entry of a waiting job. The entry of a
// paused one has a time that never comes, so the assigner need not read it.
//
// # Rounds
//
// A job that repeats waits again after each round, whether it was done or has failed. Its history
// says how the last rounds went. Status.RoundToken is the token of the first attempt of a round:
// what its handler finds under the job's resource with a lower one is of an earlier round. So a
// handler that is done before its worker is gone, and before the end is published, is not mistaken
// for the round before.
//
// # Numbered resources
//
// A job that names no resource gets one of the group's numbered resources,
// job_<group>_<tag>_<number>, when it is first assigned. No other job has the number at the same
// time. The job keeps it over all its tries, since a late worker of an earlier try is refused only
// at the resource that it has led. A job that is done gives its number back; one that has failed or
// was cancelled can be tried again by hand, so it keeps the number until it is forgotten. So
// elections, and marks in the stores, are used again: there are as many as jobs have had numbers at
// once.
//
// # Cleaning up
//
// A finished job is forgotten after Spec.Keep, or earlier if there are more than MaxFinished, or if
// they have more than MaxFinishedBytes bytes together. Those that are not done have half of both at
// most. What it has left elsewhere, such as the checkpoint of a task that is named after the job,
// is deleted by a job of the kind Spec.CleanUp, which is submitted in the same change and leads the
// same resource:
//
//	jobs.Handle(&worker, "forget", func(ctx context.Context, r *jobs.Run, ended job.Status) (any, error) {
//		return nil, journal.Forget(ctx, r.Term.Claim(), checkpoint.Name("settle-"+ended.ID))
//	})
//
// # Workers that are gone
//
// The assigner reads which workers may have assignments before it reads who is a member, so a
// worker that is missing is gone for good: IDs of members are never used again. It takes back what
// such workers had, whenever they left, and needs no memory of its predecessor. Then it forgets the
// worker. If an assignment to it was not answered in this term, it ends the term instead: the
// assignment may still be made, and nobody would look for it. Once another term leads, it cannot be
// made any more.
//
// # Limits
//
// At most MaxWaiting jobs of a group wait, with MaxWaitingBytes bytes. Submit and SubmitAll return
// ErrFull for more, and nothing of the job is written. A job that is tried again, is retried by
// hand or repeats is not refused.
//
// A waiting job costs its entry in each list of waiting jobs that the assigner gets: some 45
// bytes. ZooKeeper's default limit for an answer, 1 MB, is reached at some 20,000 waiting jobs. A
// mark costs about 1 kB in Postgres. Who needs millions of queued jobs uses a queue made for that,
// and carries its attempts under the fence.
package jobs
