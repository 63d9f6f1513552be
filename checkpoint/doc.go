// Package checkpoint runs a task, a list of named steps, in whichever process leads. The next
// leader continues where the last one stopped, and no deposed leader can move the task back.
//
//	totals, err := checkpoint.RunTask(ctx, lead, journal, "settlement-2026-11-21",
//		pgjournal.Step("book", book),    // func(ctx, pgx.Tx, Totals) (Totals, error)
//		checkpoint.Do("report", report)) // func(ctx, Totals, Key) (Totals, error)
//
// The first step is synchronous: its effects in the journal's database happen exactly once. The
// second one is asynchronous: it runs at least once, each time with the same key. A Runner with a
// Task does the same with rounds, retries and events; the Run of a Task runs it in a term that the
// caller holds.
//
// # The life of a step
//
//	             ┌─────────────── failed: the step's Retry ──────────────┐
//	             ▼                                                       │
//	Running ──▶ run ──▶ publish (state, next step) ──▶ Running at the next step, or Done
//	   │         │        conditional on token and version
//	   │         └── attempts are spent, or a panic ──▶ Stopped ──▶ Resume, Restart
//	   │
//	   └── Started: its start is recorded (see Step.Unfinished) ──▶ run ──▶ …
//
// A synchronous step runs and publishes in one transaction. An asynchronous step first runs and
// then publishes. If the process stops in between, the next leader runs the step again, with the
// same Key.
//
// # Why a deposed leader cannot move the task
//
// The journal writes a checkpoint only if the mark is the writer's token and the stored version is
// the one before; it checks both and writes in one atomic step. A new leader raises the mark
// (Journal.Raise) before it reads (Journal.TakeOver, which checks the mark and reads in one atomic
// step). A later publish of an older leader finds the newer mark and is refused. So what the new
// leader reads is final for every older leader. No clock is involved. A standby's copy is used only
// if TakeOver says that the stored version is the same.
//
// The version keeps publishes of one term apart: a repeated publish, or a second process with the
// same token. A leader that lost the answer to a publish reads the checkpoint back; the nonce says
// whether the stored one is its own.
//
// # What exactly once means here
//
// A synchronous step makes its effects through the transaction that it gets. They are in the
// journal's database once for each run, round and step, in the order of the steps. The function may
// be called more often; all calls but one leave nothing behind. What a step does elsewhere (mail,
// HTTP, another database) happens at least once if the step ends at all. Pass the Key along, or
// write to an outbox table and let an asynchronous step send from there.
package checkpoint
