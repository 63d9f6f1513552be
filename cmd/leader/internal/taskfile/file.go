package taskfile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/unfinished"
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
	Changed  stepsChanged // nil: refuse
	Steps    []Step       // at least one
}

// Step is one step. Exactly one of SQL, Run and Redis is set.
type Step struct {
	Name       string
	At         Position
	SQL        *SQL
	Run        string  // a shell command
	Redis      [][]any // commands, each at least one word; every word is a string
	Unfinished unfinished.Decision
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

// Problem is one mistake in a file.
type Problem struct {
	At   Position
	What string
}

func (p Problem) Error() string { return p.At.String() + ": " + p.What }

// String returns file:line:column, as far as they are known.
func (p Position) String() string {
	switch {
	case p.Line == 0:
		return p.File
	case p.Column == 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Problems are all mistakes that were found in a file, in its order. Nothing of the file has run.
type Problems []Problem

// Error lists them, one per line.
func (p Problems) Error() string {
	var b strings.Builder
	b.WriteString("the task file has mistakes:")
	for _, one := range p {
		b.WriteString("\n  " + one.Error())
	}
	return b.String()
}

// sorted returns the problems in the order of the text, with those of other files last.
func (p Problems) sorted(file string) Problems {
	slices.SortStableFunc(p, func(a, b Problem) int {
		return cmp.Or(
			cmp.Compare(otherFile(a, file), otherFile(b, file)), strings.Compare(a.At.File, b.At.File),
			cmp.Compare(a.At.Line, b.At.Line), cmp.Compare(a.At.Column, b.At.Column))
	})
	return p
}

func otherFile(p Problem, file string) int {
	if p.At.File == file {
		return 0
	}
	return 1
}
