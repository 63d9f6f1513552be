// Package job has what a program says of a job (Spec) and what it learns of one (Status). Package
// jobs submits and runs them.
package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/jobs/schedule"
)

// Spec is a job as it is submitted. Only Kind is required.
type Spec struct {
	Kind    string          `json:"kind"`              // which handler of a worker runs it
	Payload json.RawMessage `json:"payload,omitempty"` // the handler's input, at most MaxPayload bytes
	// what it does, in a few words for people; at most MaxTitle bytes
	Title string `json:"title,omitempty"`

	// Resource is what the job leads while it runs. Two jobs with the same resource never run at
	// once. Default: one of the group's numbered resources, which the job keeps until it is done or
	// forgotten.
	Resource fence.Resource `json:"resource,omitempty"`

	Priority  int       `json:"priority,omitempty"`  // 0 to 9; a higher one is assigned first
	NotBefore time.Time `json:"not_before,omitzero"` // by the clock of the group's leader
	Labels    []string  `json:"labels,omitempty"`    // a worker must have all of them

	Retries int `json:"retries,omitempty"` // how often it is tried again after a failure
	// before the first retry; doubles each time, up to 1 h. Default 1 s
	Backoff Duration `json:"backoff,omitempty"`
	Timeout Duration `json:"timeout,omitempty"` // of one try. Default: none

	// Every makes the job start again: a duration such as "15m", counted from when it was due first,
	// or a schedule of crontab(5) such as "0 3 * * *", which says when the first round is due, too. It
	// is in UTC, or in the zone that it names: "CRON_TZ=Europe/Berlin 0 3 * * *". Workers need the
	// zone, too: import time/tzdata where a machine may have no zones. Calendar says what changes of
	// the clocks do. Rounds that are due while one has not ended are left out. It ends when it is
	// cancelled.
	Every string `json:"every,omitempty"`

	// Unique is a key that only one unfinished job of the group has. Another submission with the same
	// key returns that job.
	Unique string `json:"unique,omitempty"`

	// Keep is how long the status stays after the end, if the group has not more than MaxFinished,
	// with MaxFinishedBytes. Default: one day if the job is done, seven days if it has failed or was
	// cancelled.
	Keep Duration `json:"keep,omitempty"`

	// CleanUp is the kind of a job that is submitted when this one is forgotten, to delete what it has
	// left, such as its checkpoint (checkpoint.Journal.Forget). It gets the last Status as its
	// payload, without the result, and the same resource and labels. None is submitted for a job that
	// was never assigned.
	CleanUp string `json:"clean_up,omitempty"`
}

// Limits of a Spec.
const (
	MaxPayload  = 200_000 // bytes
	MaxKind     = 100     // bytes
	MaxTitle    = 200     // bytes
	MaxUnique   = 500     // bytes
	MaxLabels   = 20
	MaxPriority = 9
	MaxRetries  = 1000
)

// ErrBadSpec is returned for a Spec that cannot be submitted. Nothing was sent.
var ErrBadSpec = errors.New("not a job")

// Duration is a time.Duration, in JSON as text such as "1m30s".
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}

// Check says what is wrong with a Spec, everything at once (ErrBadSpec). Submit calls it.
func (s Spec) Check() error {
	var problems []error
	bad := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf(format, args...))
	}
	if s.Kind == "" || len(s.Kind) > MaxKind {
		bad("the kind %.140q has no characters, or more than %d", s.Kind, MaxKind)
	}
	if len(s.Title) > MaxTitle {
		bad("the title has %d bytes, at most %d are allowed", len(s.Title), MaxTitle)
	}
	if len(s.CleanUp) > MaxKind {
		bad("the kind of the clean-up has more than %d characters", MaxKind)
	}
	if len(s.Payload) > MaxPayload {
		bad("the payload has %d bytes, at most %d are allowed: keep it elsewhere, and send where it is",
			len(s.Payload), MaxPayload)
	}
	if len(s.Payload) > 0 && !json.Valid(s.Payload) {
		bad("the payload is not JSON")
	}
	if s.Resource != "" {
		if _, err := fence.ParseResource(string(s.Resource)); err != nil {
			problems = append(problems, err)
		}
	}
	if _, err := s.NotBefore.MarshalText(); err != nil {
		bad("not before is no time of the years 0 to 9999")
	}
	if s.Priority < 0 || s.Priority > MaxPriority {
		bad("the priority is %d, not 0 to %d", s.Priority, MaxPriority)
	}
	if s.Retries < 0 || s.Retries > MaxRetries {
		bad("the number of retries is %d, not 0 to %d", s.Retries, MaxRetries)
	}
	for name, d := range map[string]Duration{
		"backoff": s.Backoff, "timeout": s.Timeout, "keep": s.Keep,
	} {
		if d < 0 {
			bad("the %s is below 0", name)
		}
	}
	if len(s.Labels) > MaxLabels || slices.ContainsFunc(s.Labels, badLabel) {
		bad("the labels are %.140q: at most %d are allowed, of letters, digits, '.', '_', '-' and '='",
			s.Labels, MaxLabels)
	}
	if len(s.Unique) > MaxUnique {
		bad("the unique key has %d bytes, at most %d are allowed", len(s.Unique), MaxUnique)
	}
	if _, err := schedule.Parse(s.Every); err != nil {
		problems = append(problems, err)
	} else if _, ok := s.firstDue(time.Now()); !ok {
		bad("%q has no first time after not before until the year %d", s.Every, schedule.LastYear)
	}
	if len(problems) > 0 {
		return fmt.Errorf("%w: %w", ErrBadSpec, errors.Join(problems...))
	}
	return nil
}

func badLabel(label string) bool { return documents.CheckFolder(label) != nil }

// FirstDue is when a job is due that was submitted at a time, and the first round of one that
// repeats.
func (s Spec) FirstDue(submitted time.Time) time.Time {
	due, _ := s.firstDue(submitted)
	return due
}

func (s Spec) firstDue(submitted time.Time) (time.Time, bool) {
	again, _ := schedule.Parse(s.Every)
	return again.First(schedule.Later(submitted, s.NotBefore))
}

// Calendar returns what lies ahead at a time of a job that was submitted at another. It is empty
// for a job that does not repeat.
func (s Spec) Calendar(submitted, now time.Time) (schedule.Calendar, error) {
	again, err := schedule.Parse(s.Every)
	if err != nil {
		return schedule.Calendar{}, err
	}
	return again.Calendar(s.FirstDue(submitted), schedule.Later(now, s.NotBefore), now), nil
}
