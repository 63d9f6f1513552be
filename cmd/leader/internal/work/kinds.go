package work

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/cmd/leader/internal/tasks"
	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/jobs/job"
)

// kind is what is known of a kind of job.
type kind struct {
	handle func(*jobs.Worker, *machine) // makes a worker run it
	// what people call a job, from its payload; empty if that is bad
	title func(json.RawMessage) (title string)
	// submission is how leader submit takes one; nil for commands, which it takes behind --
	submission *Submission
	// follow calls each after every step of a job, until ctx ends or it cannot; nil if it has no steps
	follow func(
		v *Invocation, ctx context.Context, spec job.Spec, each func(checkpoint.Checkpoint),
	) error
}

// Submission is how leader submit takes a job of a kind: by a flag with the kind's name.
type Submission struct {
	Value string // that the flag takes, such as FILE
	Usage string // of the flag
	Runs  string // what such a job runs, such as "the task in FILE"
	Title string // what people call it, if --title says nothing
	Help  string // a paragraph of leader submit --help
	// Spec makes a spec a job of the kind, from the flag's value. lookup returns a variable of the
	// environment.
	Spec func(
		s job.Spec, value string, lookup func(name string) (string, bool),
	) (job.Spec, error)
}

// kinds are the kinds of job that leader work runs. All of them return a Result, which leader jobs
// logs, submit --wait and the page show. A new kind is a line here.
var kinds = map[string]kind{CommandKind: commandJobs, TaskKind: taskJobs}

// Kinds returns their names, sorted.
func Kinds() []string { return slices.Sorted(maps.Keys(kinds)) }

// SubmissionOf returns how leader submit takes a job of a kind by a flag, or nil.
func SubmissionOf(kind string) *Submission { return kinds[kind].submission }

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
