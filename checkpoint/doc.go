// Package checkpoint runs a task of named steps under whoever leads, so that the next leader goes
// on where the last one left, and no deposed leader can move it back.
//
//	task := checkpoint.Task[Totals]{
//	        Name: "settlement-2026-11-21",
//	        Steps: []checkpoint.Step[Totals]{
//	                postgres.Step("book", book),    // func(ctx, pgx.Tx, Totals) (Totals, error): exactly once
//	                {Name: "report", Run: report},  // func(ctx, Totals, Key) (Totals, error): at least once
//	        },
//	}
//	candidate := checkpoint.Candidate[Totals]{Lead: lead, Journal: journal, Task: task}
//	_, err := candidate.Run(ctx)
//
// # The life of a step
//
//	             ┌───────────── failed: the author's Retry ──────────────┐
//	             ▼                                                       │
//	Running ──▶ run ──▶ publish (state, next step) ──▶ Running at the next step, or Done
//	   │         │        conditional on token and version
//	   │         └── attempts are spent, or a panic ──▶ Stopped ──▶ Resume, Restart
//	   │
//	   └── Started: its start is recorded (see Step.Unfinished) ──▶ run ──▶ …
//
// A synchronous step runs and publishes in one transaction. Between the two of an asynchronous one
// the process may stop; then the step is run again, with the same Key.
//
// # Why a deposed leader cannot move the task
//
// A checkpoint is written only if, in one atomic step at the journal, the mark is the writer's
// token and the stored version is the one before. A new leader raises the mark before it reads
// (Journal.Raise, then Take, which checks the mark and reads at once). So what it reads is what
// every older leader has left for good: a publish of an older one that comes later finds a newer
// mark. Neither the standby's copy nor any clock plays a part: the copy is used only if Take says
// that its version is the stored one.
//
// The version keeps apart what happens within one term: a repeated publish, a second runner with
// the same token. An answer that was lost is read back: the nonce of the stored checkpoint says
// whether it is this one.
//
// # What exactly once means here
//
// The effects of a synchronous step in the journal's own database, made through its transaction,
// are in the database once for each (run, round, step), in the order of the steps. The function may
// be called more often; all calls but one leave nothing behind. What a step does elsewhere (mail,
// HTTP, another database) happens at least once if the step ends at all: give it the Key, or write
// to an outbox table and let an asynchronous step send from there.
package checkpoint
