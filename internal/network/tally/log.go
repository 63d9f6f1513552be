package tally

import (
	"log/slog"
	"strings"
)

// Log logs warnings that a client can cause at will, each kind once a minute at most, with the
// number of those that it stands for. Warnings are of one kind if their texts differ only in
// digits, as in the address of a client.
type Log struct {
	log *slog.Logger
	all Tally[string, line]
}

type line struct {
	message string
	args    []any
}

// NewLog returns a Log that writes to log. Close it after the last warning.
func NewLog(log *slog.Logger) *Log {
	l := &Log{log: log}
	l.all.Report = l.report
	l.all.Rest = func(_ string, e line) (string, line) { return "", e }
	return l
}

// Warn logs or counts a warning.
func (l *Log) Warn(message string, err error, args ...any) {
	l.all.Add(kind(message+": "+err.Error()), line{message, append(args, "err", err)})
}

// Write logs or counts one line, for a log.Logger.
func (l *Log) Write(b []byte) (int, error) {
	text := strings.TrimSpace(string(b))
	l.all.Add(kind(text), line{message: text})
	return len(b), nil
}

// Close logs what is counted and not logged yet. Later warnings are logged one by one.
func (l *Log) Close() { l.all.Close() }

func (l *Log) report(last line, n int) {
	l.log.Warn(last.message, append(last.args, "count", n)...)
}

// kind is the first line of the text without digits.
func kind(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	return strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return -1
		}
		return r
	}, text)
}
