package work

import (
	"encoding/json"

	"github.com/ringfence/ringfence/cmd/leader/internal/tasks"
	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/jobs/job"
)

// kind is what is known of a kind of job.
type kind struct {
	handle func(*jobs.Worker, *machine) // makes a worker run it
	// what people call a job, from its payload; empty if that is bad
	title func(json.RawMessage) (title string)
}

// kinds are the kinds of job that leader work runs. All of them return a Result, which leader jobs
// logs, submit --wait and the page show. A new kind is a line here.
var kinds = map[string]kind{
	CommandKind: {
		handle: func(w *jobs.Worker, m *machine) { jobs.Handle(w, CommandKind, m.runCommand) },
		title:  titleOfCommand,
	},
	TaskKind: {
		handle: func(w *jobs.Worker, m *machine) { jobs.Handle(w, TaskKind, m.runTask) },
		title:  titleOfTask,
	},
}

// machine is what the handlers of a worker have.
type machine struct{ tasks.Setup }

// Result is what such a job publishes. The texts are the last bytes of each stream, at most
// MaxOutput, and fewer if JSON needs more than maxEncoded for them.
type Result struct {
	Code   int    `json:"code"` // 128 + n if signal n has ended it; the exit code of submit --wait
	Stdout string `json:"stdout,omitempty"`
	Stderr string `json:"stderr,omitempty"`
}

// resultOf returns the result of a job's last try that has ended, if its kind is one of these.
func resultOf(s job.Status) (r Result, ok bool) {
	if _, ours := kinds[s.Kind]; !ours || len(s.Result) == 0 || json.Unmarshal(s.Result, &r) != nil {
		return Result{}, false
	}
	return r, true
}
