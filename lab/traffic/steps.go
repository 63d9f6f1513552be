package traffic

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/jobs/job"
	"github.com/ringfence/ringfence/lab/history"
)

// JobStep is one job's part in a change of documents.
type JobStep struct {
	Status job.Status // after it
	Write  int        // of its status in the change
	// Event is the Invoke, without Process and Op.
	Event history.Event
}

// JobFolder returns a folder of the lab's jobs (package jobs), with the slash behind it.
func JobFolder(name string) string { return "jobs/" + JobGroup + "/" + name + "/" }

// JobSteps returns the steps of jobs in a change.
func JobSteps(c documents.Change) (all []JobStep) {
	for i, w := range c.Writes {
		if w.Kind != documents.KindPut || !strings.HasPrefix(w.Path, JobFolder("statuses")) {
			continue
		}
		var s job.Status
		if json.Unmarshal(w.Data, &s) != nil {
			continue
		}
		e := history.Event{
			Kind: history.Invoke, Do: history.Change, Key: string(s.ID), Attempt: s.Attempt,
			Round: int64(s.Rounds), State: history.State(s.State), Version: w.Version,
			Text: s.WorkerName, Resource: s.Resource,
		}
		for _, claim := range c.While {
			if claim.Resource == s.Resource || claim.Resource == Assigner {
				e.Resource, e.Token = claim.Resource, claim.Token
			}
		}
		all = append(all, JobStep{s, i, e})
	}
	return all
}

// Returned returns the Return of a step, from what the change has returned.
func (s JobStep) Returned(versions []int64, err error) history.Event {
	e := s.Event
	e.Kind, e.Outcome, e.At = history.Return, ChangeOutcome(err), 0
	if err != nil {
		e.Text = strings.Join(strings.Fields(err.Error()), " ")
	} else {
		e.Made = versions[s.Write]
	}
	return e
}

// ChangeOutcome is what the error of a change of documents says about it.
func ChangeOutcome(err error) history.Outcome {
	var r *fence.Refusal
	switch {
	case err == nil:
		return history.OK
	case errors.Is(err, documents.ErrUnknown):
		return history.Unknown
	case errors.As(err, &r):
		return history.Refused
	}
	return history.Failed
}
