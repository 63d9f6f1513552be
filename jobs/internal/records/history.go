package records

import (
	"slices"
	"time"

	"github.com/ringfence/ringfence/jobs/job"
)

// attemptError is how many bytes of an error the history has.
const attemptError = 200

// tried adds the attempt that ends now, and had this status, to the history of s.
func tried(s *job.Status, had job.Status, how job.Outcome, why string, now time.Time) {
	a := job.Attempt{
		Attempt: had.Attempt, Worker: had.WorkerName, Ended: now, Outcome: how,
		Error: shortenTo(why, attemptError),
	}
	if had.Every != "" {
		a.Round = had.Rounds + 1
	}
	if had.State == job.Running { // an earlier attempt has left its token and time
		a.Token, a.Started = had.Token, had.Started
	}
	s.History = append(slices.Clip(s.History), a)
	for len(Encode(s.History)) > job.MaxHistory {
		s.History = s.History[1:]
	}
}
