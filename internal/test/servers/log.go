package servers

import (
	"io"
	"os"
	"strings"
)

const (
	tailLines = 15      // of the log in an error
	keepLines = 200     // of the log kept after Close
	tailBytes = 1 << 16 // of the file's end at most
)

// tail returns the last n lines of the file, but nothing before the offset from.
func tail(name string, from int64, n int) string {
	f, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil {
		from = max(from, info.Size()-tailBytes)
	}
	b, _ := io.ReadAll(io.NewSectionReader(f, from, tailBytes))
	return lastLines(string(b), n)
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// quoteLog formats the end of a log for an error message.
func quoteLog(log string) string {
	log = strings.TrimSpace(log)
	if log == "" {
		return " (its log is empty)"
	}
	return "\n  | " + strings.ReplaceAll(log, "\n", "\n  | ")
}
