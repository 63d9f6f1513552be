package tasks

import (
	"context"
	"errors"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/cmd/leader/internal/supervise"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/coordinators"
)

// ended logs how the run has ended, and returns the exit code.
func (r *taskRun) ended(cp checkpoint.Checkpoint, err error) int {
	if err == nil {
		r.Log.Info("the task is done")
		return cli.Done
	}
	if s, ok := errors.AsType[supervise.Signalled](context.Cause(r.ctx)); ok {
		r.Log.Info("ended by a signal; the next copy continues", "cause", r.Settings.scrub(err.Error()))
		return s.Code()
	}
	cause, code, next := r.Settings.scrub(err.Error()), cli.Error, r.next(err)
	switch {
	case errors.Is(err, checkpoint.ErrStopped):
		r.Log.Error("the task is stopped", "cause", cause, "next", next)
		return cli.Error
	case errors.Is(err, fence.ErrLost), errors.Is(err, fence.ErrStale):
		code = cli.Lost
	}
	r.Log.Error("the task cannot continue", "cause", cause, "next", next)
	return code
}

// next says what a person should do.
func (r *taskRun) next(err error) string {
	var setup *fence.SetupError
	url, _ := r.journalAt()
	switch {
	case errors.Is(err, checkpoint.ErrStopped):
		return "fix the cause of the failure, then: leader task resume " + r.Path +
			" (or restart, to begin with the first step), and start leader task again"
	case errors.Is(err, checkpoint.ErrStepsChanged):
		return "set changed: accept, restart or map: {old: new} in the task file, or run the file with " +
			"which the task began"
	case errors.Is(err, fence.ErrNotInstalled), errors.As(err, &setup):
		return install(kindOf(url.URL))
	case errors.Is(err, fence.ErrOtherIssuer):
		return "check LEADER_COORDINATOR; if the coordinator was rebuilt, an operator has to run " +
			"guard adopt"
	case errors.Is(err, checkpoint.ErrCorrupt):
		return "use the task file that wrote the state, or leader task restart"
	case errors.Is(err, checkpoint.ErrConflict):
		return "make sure that no other program runs this task, and that the journal was not restored " +
			"from a backup; then start leader task again"
	case errors.Is(err, coordinators.ErrCampaign):
		return "check LEADER_COORDINATOR and its permissions"
	case errors.Is(err, fence.ErrLost), errors.Is(err, fence.ErrStale):
		return "start leader task again: it continues at the checkpoint"
	}
	return "nothing is lost: start leader task again once the cause is fixed"
}

// install says how to prepare a journal.
func install(kind string) string {
	if kind == "postgres" {
		return "an operator has to run guard install for the journal's database, with the role of its " +
			"URL among GUARD_POSTGRES_LEADERS"
	}
	return "an operator has to run guard install for the journal's server"
}

// scrubbed returns the error without secrets.
func (inv *Invocation) scrubbed(err error) error {
	return errors.New(inv.Settings.scrub(err.Error()))
}
