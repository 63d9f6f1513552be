// Package work implements leader work, leader submit and leader jobs.
//
//	v := &work.Invocation{Setup: tasks.Setup{Settings: …, Coordinator: coordinator, …}, Group: "settlement"}
//	os.Exit(v.Work(ctx, work.Work{Capacity: 4, Strategy: "least-loaded"}))
//
// Package jobs hands the jobs out. This package has the kinds of job that leader work runs: a table
// (kinds.go) and a file for each, command.go and task.go. To add one, write its file, add its line to the
// table, and let leader submit make its Spec (cmd/leader/jobs.go).
package work
