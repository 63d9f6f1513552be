package taskfile

import (
	"encoding/json"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
)

// File is a task file without mistakes, as far as that can be checked without a server.
type File struct {
	Task     checkpoint.Name
	Resource fence.Resource
	Journal  Journal // empty if the file names none; without a password
	Rounds   int64   // checkpoint.Forever, or at least 1
	Every    time.Duration
	State    json.RawMessage // an object
	Retry    checkpoint.Retry
	Changed  checkpoint.OnStepsChanged // nil: refuse
	Steps    []Step                    // at least one
}

// Step is one step. Exactly one of SQL, Run and Redis is set.
type Step struct {
	Name       string
	At         Position
	SQL        *SQL
	Run        string  // a shell command
	Redis      [][]any // commands, each at least one word; every word is a string
	Unfinished checkpoint.Decision
	Ask        string // a shell command that decides instead of Unfinished; "" for none
	Timeout    time.Duration
	Retry      *checkpoint.Retry // nil: the task's
}

// SQL holds the statements of a synchronous step.
type SQL struct {
	Text string
	// File and Line are where the text begins. Line is 0 if lines of the text are not lines of the
	// file.
	File string
	Line int
}

// Position is a place in a file, counted from 1.
type Position struct {
	File         string
	Line, Column int // 0: unknown
}
