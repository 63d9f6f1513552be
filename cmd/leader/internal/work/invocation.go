package work

import (
	"github.com/ringfence/ringfence/cmd/leader/internal/tasks"
	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/jobs/queueview"
)

// Invocation is one call of a subcommand.
type Invocation struct {
	tasks.Setup
	Group string
	// called with the worker before it runs, to count what it does; may be nil
	Watch func(*queueview.View, *jobs.Worker)

	Passed bool // set by Submit: what it returns is the exit code of the job's command
}

// queue returns the group's jobs.
func (v *Invocation) queue() (*queueview.View, error) {
	return queueview.New(v.Coordinator, v.Group)
}
