// Package tasks implements `leader task …`: it runs the tasks of task files, and shows and edits
// their checkpoints.
//
//	inv := &tasks.Invocation{
//		Setup: tasks.Setup{Settings: …, Stores: stores.All, Journals: tasks.AllJournals, …},
//		Path:  "settlement.yaml",
//	}
//	if err := inv.Load(true); err != nil {
//		return err // every problem of the file, with its line
//	}
//	inv.Coordinator, inv.Log = coordinator, log
//	os.Exit(inv.Run(ctx))
//
// Package taskfile reads the file, and package checkpoint campaigns, chooses the next step and
// retries. This package has the steps of a file: SQL in the transaction of the checkpoint (sql.go),
// commands under a supervisor (shell.go), Redis commands under the token (redis.go). It has the
// table of journals by the scheme of a URL (journals.go), and the output (report.go, bar.go,
// show.go).
//
// A command that was stopped because of the term does not count as a failure of its step. It runs
// again when the coordinator is back in time, or else under the next leader.
package tasks
