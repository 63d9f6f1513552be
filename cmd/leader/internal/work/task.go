package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/cmd/leader/internal/environ"
	"github.com/ringfence/ringfence/cmd/leader/internal/taskfile"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/jobs/job"
)

// TaskKind is the kind of job that runs a task from its checkpoint. The payload is a
// taskfile.Bundle, the result a Result.
const TaskKind = "task"

var taskJobs = kind{
	handle: func(w *jobs.Worker, m *machine) { jobs.Handle(w, TaskKind, m.runTask) },
	title:  titleOfTask,
	submission: &Submission{
		Value: "FILE", Usage: "run the task in `FILE` (leader task --help) in place of a command",
		Runs: "the task in FILE", Title: "the name of its task", Help: taskHelp, Spec: taskSpec,
	},
	follow: (*Invocation).followTask,
}

const taskHelp = `A task (--task) is handed in with the SQL files and the values of environment variables that it names. Its
steps go on at its checkpoint, whichever worker has the job, in that worker's directory and journal. The
job leads the task's resource. With --every, each round begins a new run of the task once the one before
is done; one that is not done goes on. When a step has failed for good, the job has failed, too: leader task
resume FILE, then leader jobs GROUP retry ID.
`

// taskSpec makes the task in a file the job of a spec. The job's resource is the task's.
func taskSpec(
	spec job.Spec, file string, lookup func(string) (string, bool),
) (job.Spec, error) {
	b, f, err := taskfile.Collect(file, lookup)
	switch {
	case err != nil:
		return spec, err
	case spec.Resource != "" && spec.Resource != f.Resource:
		return spec, fmt.Errorf("--resource is %s, and the resource of the task is %s: leave "+
			"--resource out",
			spec.Resource, f.Resource)
	case spec.Every != "" && f.Rounds == checkpoint.Forever:
		return spec, errors.New("--every: the task file says rounds: forever, so the first round would " +
			"never end: remove rounds and every from the file, or leave --every out")
	}
	payload, err := json.Marshal(b)
	spec.Kind, spec.Payload, spec.Resource = TaskKind, payload, f.Resource
	return spec, errors.Join(err, spec.Check())
}

// runTask is the handler of tasks. A worker that stops, or is gone, leaves the checkpoint, where
// the next one goes on. Each round of a job that repeats begins a new run of the task, if the last
// one is done; one that is not done goes on, or stays stopped.
func (m *machine) runTask(ctx context.Context, r *jobs.Run, b taskfile.Bundle) (*Result, error) {
	task, err := m.OfJob(b, environ.With(m.Env, ofJob(r)))
	if err != nil {
		return nil, err // another worker may have the settings
	}
	if own := r.Term.Claim().Resource; own != task.Resource {
		return nil, jobs.Permanent(fmt.Errorf("the resource of the task %s is %s, and that of the job "+
			"is %s",
			task.Name, task.Resource, own))
	}
	task.Log = task.Log.With("job", string(r.ID), "task", string(task.Name))
	stdout, stderr := newTail(), newTail()
	showing(r, stdout, stderr)
	_, err = task.RunIn(ctx, r.Term, r.RoundToken, stdout, stderr)
	result := &Result{Stdout: kept(stdout), Stderr: kept(stderr)}
	for _, final := range []error{
		checkpoint.ErrStopped, checkpoint.ErrBadTask, checkpoint.ErrStepsChanged, checkpoint.ErrCorrupt,
		checkpoint.ErrConflict, fence.ErrOtherIssuer,
	} {
		if errors.Is(err, final) {
			return result, jobs.Permanent(err)
		}
	}
	return result, err
}

// ofJob is what a job's command finds in its environment, beside its claim.
func ofJob(r *jobs.Run) [][2]string {
	return [][2]string{{"RINGFENCE_JOB", string(r.ID)}, {"RINGFENCE_ATTEMPT", fmt.Sprint(r.Attempt)}}
}

// followTask calls each with the checkpoint of a job's task after every change, until ctx ends, or
// until it cannot.
func (v *Invocation) followTask(
	ctx context.Context, spec job.Spec, each func(checkpoint.Checkpoint),
) error {
	var b taskfile.Bundle
	if err := json.Unmarshal(spec.Payload, &b); err != nil {
		return err
	}
	t, err := v.OfJob(b, v.Env)
	if err != nil {
		return err
	}
	t.Log = slog.New(slog.DiscardHandler) // the workers say what is wrong with the journal
	return t.Follow(ctx, each)
}

// titleOfTask is the name of the task.
func titleOfTask(payload json.RawMessage) string {
	var b taskfile.Bundle
	if json.Unmarshal(payload, &b) != nil {
		return ""
	}
	f, err := b.File(func(string) (string, bool) { return "", false })
	if err != nil {
		return ""
	}
	return string(f.Task)
}
