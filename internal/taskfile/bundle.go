package taskfile

import (
	"fmt"
	"path/filepath"
)

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
