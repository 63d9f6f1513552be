package taskfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

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
