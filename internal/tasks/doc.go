// Package tasks runs the tasks of task files, and shows and edits their checkpoints: it is what
// `leader task …` does.
//
//	inv := &tasks.Invocation{Settings: …, Path: "settlement.yaml", Stores: stores.All, Journals: tasks.AllJournals, …}
//	if err := inv.Load(true); err != nil {
//		return err // every problem of the file, with its line
//	}
//	inv.Coordinator, inv.Log = coordinator, log
//	os.Exit(inv.Run(ctx))
//
// Package taskfile reads the file, and package checkpoint decides who leads, what the next step is
// and when it is tried again. What is here are the steps of a file: SQL in the transaction of the
// checkpoint (sql.go), commands under a supervisor (shell.go), Redis commands under the token
// (redis.go); where checkpoints are kept, by the scheme of a URL (journals.go); and what a person
// sees (report.go, bar.go, show.go).
//
// That a command was stopped for the term's sake is never its step's failure: it is run again when
// the coordinator is back in time, and otherwise by the next leader.
package tasks
