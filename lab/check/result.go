package check

import (
	"time"

	"github.com/ringfence/ringfence/lab/history"
)

// Verdict is what a history proves.
type Verdict string

const (
	Valid   Verdict = "valid"   // every demand was shown to hold
	Invalid Verdict = "invalid" // something happened that must never happen
	Unknown Verdict = "unknown" // the run does not count: it tested nothing, or was not completed
)

// ExitCode is 0, 1 or 2.
func (v Verdict) ExitCode() int {
	switch v {
	case Valid:
		return 0
	case Invalid:
		return 1
	}
	return 2
}

// Result is a judged history, as results.json holds it.
type Result struct {
	Verdict  Verdict         `json:"verdict"`
	Header   *history.Header `json:"header,omitempty"`
	Problems []Problem       `json:"problems,omitempty"` // violations, the earliest first
	Doubts   []string        `json:"doubts,omitempty"`   // why the run does not count
	Figures  Figures         `json:"figures"`
}

// Problem is one violation.
type Problem struct {
	Invariant string `json:"invariant"` // I1 … I8, model, expect, or a replay.Rule
	At        int64  `json:"at"`        // as in history.Event; 0: of the run as a whole
	Process   string `json:"process,omitempty"`
	Op        string `json:"op,omitempty"`
	Text      string `json:"text"` // with the numbers that prove it
}

// JobFigures are the numbers of a run about jobs.
type JobFigures struct {
	Submitted   int `json:"submitted"` // acknowledged
	Done        int `json:"done"`
	Assignments int `json:"assignments"`      // acknowledged
	TakenBack   int `json:"taken_back"`       // from a worker, before it had ended them
	Late        int `json:"late_completions"` // tried under an attempt that was over
	LateTaken   int `json:"late_accepted"`
	Unanswered  int `json:"unanswered,omitempty"` // assignments
	Cancelled   int `json:"cancelled,omitempty"`  // how often a job was
	Retried     int `json:"retried,omitempty"`    // by a client
	// submissions that returned a job that was there
	Shared   int            `json:"shared,omitempty"`
	Rounds   int            `json:"rounds,omitempty"` // of jobs that repeat, that have ended
	ByWorker map[string]int `json:"by_worker"`        // assignments
}

// Answers are attempts that had the same outcome.
type Answers struct {
	Outcome history.Outcome `json:"outcome"`
	Count   int             `json:"count"`
	Example string          `json:"example,omitempty"` // what the first of them was told
}

// Figures are the numbers of a run.
type Figures struct {
	Writes        int `json:"writes"` // attempts
	Acknowledged  int `json:"acknowledged"`
	Unknown       int `json:"unknown"`        // attempts with an unknown outcome
	Changes       int `json:"changes"`        // of leadership
	StaleAttempts int `json:"stale_attempts"` // sent after a newer token was acknowledged
	StaleRefused  int `json:"stale_refused"`  //
	// StaleAnswers says what the other attempts were told.
	StaleAnswers  []Answers `json:"stale_answers,omitempty"`
	StaleAccepted int       `json:"stale_accepted"`  // in the databases, committed after a newer token
	FalseRefusals int       `json:"false_refusals"`  // as stale, and no newer token had been presented
	Lost          int       `json:"lost"`            // acknowledged, and not in the database
	Kills         int       `json:"kills,omitempty"` // processes ended by a failpoint or a kill

	Jobs *JobFigures `json:"jobs,omitempty"` // nil if the run is not about jobs

	// Before, During and After are acknowledged writes per second: until the first fault, while any
	// lasts, and after the last.
	Before float64 `json:"before_per_second"`
	During float64 `json:"during_per_second"`
	After  float64 `json:"after_per_second"`

	// TakeOvers are the times from the last acknowledgement under one token to the first under the
	// next.
	TakeOvers []history.Duration `json:"take_overs,omitempty"`
	// Recovery is the time from the end of the last fault to the next acknowledged write.
	Recovery   history.Duration `json:"recovery,omitempty"`
	Took       time.Duration    `json:"-"`          // to check the history
	Linearized int              `json:"linearized"` // operations that the model explains
}
