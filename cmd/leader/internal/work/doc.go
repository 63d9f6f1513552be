// Package work implements leader work, leader submit and leader jobs.
//
//	v := &work.Invocation{Setup: tasks.Setup{Settings: …, Coordinator: coordinator, …}, Group: "settlement"}
//	os.Exit(v.Work(ctx, work.Work{Capacity: 4, Strategy: "least-loaded"}))
//
// Package jobs hands the jobs out. This package has the kinds of job that leader work runs: a table
// (kinds.go) and a file for each, such as command.go.
//
// # Another kind
//
// Write X.go with the payload, the handler, the title and how leader submit takes one, as task.go
// has them, and add a line to the table.
//
//   - The handler returns a Result, whose texts are the ends of two streams (newTail, kept);
//     showing lets people look at them meanwhile. logs, show, list, the API and the page then need
//     nothing. The page shows exactly the fields of Result. Code is the exit code of submit --wait
//     if the job has failed.
//   - jobs.Permanent is a failure that no retry mends; any other error is tried again.
//   - A title has at most job.MaxTitle bytes, and no secrets. The function title is for commands.
//   - A Submission makes the flag of leader submit, its usage and its help. Commands have none.
//   - A child of supervise is paused and ended as LEADER_ON_DISCONNECT says. What runs in this
//     process looks at ctx and at Term.Wait itself.
//
// What does not go through a guard is not fenced: send the claim (Term.Claim) along, and say in
// docs/jobs.md that whoever receives it has to compare the token.
//
// Tests: title_test.go here, and cmd/leader/jobs_linux_test.go, which hands one in. The API
// describes payloads in jobserver/openapi.yaml. Then docs/jobs.md and CHANGELOG.md. The page shows
// the payload as JSON unless jobserver/files/job.js has texts for it. A module that is new to this
// one is listed in internal/test/imports and in ARCHITECTURE.md, Dependencies.
package work
