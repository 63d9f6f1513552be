// Package logging sets up the commands' log.
package logging

import (
	"io"
	"log/slog"
	"os"

	"golang.org/x/term"
)

// New logs to w: as text where a person is reading, as JSON where w is not a terminal.
func New(w io.Writer, level slog.Leveler) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if IsTerminal(w) {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(w, options))
}

// IsTerminal tells whether f is a file that is a terminal.
func IsTerminal(f any) bool {
	file, ok := f.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
