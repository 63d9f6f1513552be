package jobstest

// clause is one part of the contract.
type clause struct {
	name string
	run  func(*stage)
}

var clauses = []clause{
	{"every job is done, and its result published", everyJobIsDone},
	{"a job waits for a worker", jobWaitsForAWorker},
	{"a job waits for its time", jobWaitsForItsTime},
	{"a job with a higher priority goes first", priorityGoesFirst},
	{"a worker has no more jobs than it wants", capacityIsRespected},
	{"a job goes to a worker with its labels and its kind", labelsAndKinds},
	{"two jobs with one resource never run at once", oneResourceAtATime},
	{"a job whose resource is taken takes no room", takenResource},
	{"a job whose resource is taken takes no room when another one assigns", takenResourceOfAPredecessor},
	{"jobs with one resource are assigned one after the other", sharedOneByOne},
	{"a job keeps its resource over all its tries", keepsItsResource},
	{"numbered resources are used again", resourcesAreUsedAgain},
	{"a forgotten job is cleaned up after", cleansUp},
	{"several jobs are handed in at once", submitAll},
	{"a unique job is handed in once", uniqueIsOnce},
	{"a failed job is tried again", failedIsTriedAgain},
	{"a job that fails too often has failed", failedTooOften},
	{"a result that is too large makes no failure", resultTooLarge},
	{"large results stop nobody", largeStatuses},
	{"a lower limit of the coordinator stops nobody", lowerLimit},
	{"a panic is a failure", panicIsAFailure},
	{"a job that runs for too long is stopped", timeoutStops},
	{"a waiting job is cancelled at once", waitingIsCancelled},
	{"a running job is cancelled", runningIsCancelled},
	{"a failed or cancelled job can be tried again", retryByHand},
	{"a job whose unique key is taken cannot be tried again", retryOfATakenKey},
	{"a job that repeats starts again", repeats},
	{"a finished job is forgotten", finishedIsForgotten},
	{"a worker that stops gives its jobs back", stoppingGivesBack},
	{"nothing stays of a worker that has stopped", stoppingLeavesNothing},
	{"a worker that stops lets its jobs end within the grace", stoppingHasGrace},
	{"a worker that stops begins no job", stoppingBeginsNothing},
	{"the jobs of a worker that is gone go to another", goneWorkersJobs},
	{"a job whose worker has stopped or is gone keeps its place", keepsItsPlace},
	{"the jobs of a worker that is gone with the one who assigns go to another", bothAreGone},
	{"a job that has lost too many workers has failed", lostTooOften},
	{"a worker that was thought gone publishes nothing", zombiePublishesNothing},
	{"the result of a worker that leads no more is not published", lateResult},
	{"a change of a deposed leader of the group assigns nothing", lateAssignment},
	{"random histories keep the rules", randomHistory},
	{"a worker that has lost its session comes back under another ID", comesBack},
	{"jobs go on when the one who assigns is gone", assignerIsGone},
	{"what is no job is refused", badSpecs},
	{"jobs are listed", jobsAreListed},
}
