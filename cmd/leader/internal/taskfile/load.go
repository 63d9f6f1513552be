package taskfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v4"
)

// Limits on the size of files, in bytes. Tasks are written by hand.
const (
	fileLimit = 1 << 20
	sqlLimit  = 16 << 20
)

// Load reads a task file. lookup returns environment variables. The error is Problems, or the error
// of opening the file.
func Load(path string, lookup func(name string) (string, bool)) (*File, error) {
	_, f, err := Collect(path, lookup)
	return f, err
}

func contents(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%s has more than %d bytes", path, limit)
	}
	return text, err
}

// reader reads one file and collects the problems.
type reader struct {
	path     string
	lookup   func(string) (string, bool)
	open     func(name string) ([]byte, error)
	problems Problems
}

func (r *reader) read(text []byte) (*File, error) {
	var document yaml.Node
	if err := yaml.Load(text, &document); err != nil {
		return nil, r.unreadable(err)
	}
	if len(document.Content) != 1 {
		return nil, Problems{{At: Position{File: r.path}, What: "the file is empty"}}
	}
	if !r.finite(document.Content[0]) {
		return nil, r.problems
	}
	f := r.task(document.Content[0])
	if len(r.problems) > 0 {
		return nil, r.problems.sorted(r.path)
	}
	return f, nil
}

// unreadable reports a file that is not one YAML document. The parser stops at the first mistake.
func (r *reader) unreadable(err error) error {
	p := Problem{At: Position{File: r.path}, What: "not YAML: " + err.Error()}
	var all *yaml.LoadErrors
	var one *yaml.LoadError
	switch {
	case errors.As(err, &all):
		p.What = "it has to be one YAML document that is not empty"
	case errors.As(err, &one):
		p.At.Line, p.At.Column = one.Mark.Line, one.Mark.Column
		p.What = "not YAML: " + one.Message
		if one.ContextMsg != "" {
			p.What += fmt.Sprintf(" (%s, which begins in line %d)", one.ContextMsg, one.ContextMark.Line)
		}
	}
	return Problems{p}
}

// at reports a problem at a node.
func (r *reader) at(n *yaml.Node, format string, args ...any) {
	r.problems = append(r.problems, Problem{At: r.position(n), What: fmt.Sprintf(format, args...)})
}

func (r *reader) position(n *yaml.Node) Position {
	return Position{File: r.path, Line: n.Line, Column: n.Column}
}

// Bundle is a task file with the files and the environment variables that it names, to be read on
// another machine.
type Bundle struct {
	Path  string            `json:"path"` // where it was, for messages
	Text  string            `json:"text"`
	Files map[string]string `json:"files,omitempty"` // by the name that the task file gives
	Env   map[string]string `json:"env,omitempty"`   // those that are set; others are the reader's
}

// Collect reads a task file as Load does, and returns the bundle, too.
func Collect(path string, lookup func(name string) (string, bool)) (Bundle, *File, error) {
	text, err := contents(path, fileLimit)
	if err != nil {
		return Bundle{}, nil, err
	}
	b := Bundle{Path: path, Text: string(text), Files: map[string]string{}, Env: map[string]string{}}
	note := func(name string) (string, bool) {
		value, set := lookup(name)
		if set && value != "" {
			b.Env[name] = value
		}
		return value, set
	}
	r := &reader{path: path, lookup: note, open: func(name string) ([]byte, error) {
		at := name
		if !filepath.IsAbs(at) {
			at = filepath.Join(filepath.Dir(path), at)
		}
		text, err := contents(at, sqlLimit)
		b.Files[name] = string(text)
		return text, err
	}}
	f, err := r.read(text)
	return b, f, err
}

// File reads the task file. It opens no file. The error is Problems.
func (b Bundle) File(lookup func(name string) (string, bool)) (*File, error) {
	first := func(name string) (string, bool) {
		if value, set := b.Env[name]; set {
			return value, true
		}
		return lookup(name)
	}
	r := &reader{path: b.Path, lookup: first, open: func(name string) ([]byte, error) {
		text, there := b.Files[name]
		if !there {
			return nil, fmt.Errorf("%s was not handed in with the task", name)
		}
		return []byte(text), nil
	}}
	return r.read([]byte(b.Text))
}
