// Package logging sets up the log and the output of a program. main opens a Writer for standard
// error, which never waits for its reader:
//
//	stderr := logging.Open(os.Stderr)
//	defer stderr.Close()
//	log := logging.New(stderr, slog.LevelInfo)
//
// So no stop, no admission and no election waits for the log.
package logging

import (
	"io"
	"log/slog"
	"os"

	"golang.org/x/term"
)

// New logs to w: as text if w is a terminal, otherwise as JSON.
func New(w io.Writer, level slog.Leveler) *slog.Logger {
	return slog.New(handler(w, IsTerminal(w), level))
}

func handler(w io.Writer, terminal bool, level slog.Leveler) slog.Handler {
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: withUnit}
	if terminal {
		return distinct{Handler: slog.NewTextHandler(w, options)}
	}
	return distinct{Handler: slog.NewJSONHandler(w, options)}
}

// withUnit writes a duration as 1.5s, and not as a number of nanoseconds.
func withUnit(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	file, ok := Direct(w).(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Dropped counts the lines that a program's standard error did not get.
func Dropped(w io.Writer) func() float64 {
	if of, ok := w.(*Writer); ok {
		return func() float64 { return float64(of.Dropped()) }
	}
	return func() float64 { return 0 }
}
