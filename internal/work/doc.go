// Package work implements leader work, leader submit and leader jobs.
//
//	w := &work.Invocation{Settings: …, Group: "settlement", Coordinator: coordinator, …}
//	os.Exit(w.Work(ctx))
//
// Package jobs hands the jobs out. This package has the kind of job that runs a command
// (command.go), and the output.
package work
