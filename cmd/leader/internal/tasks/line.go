package tasks

import (
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/ringfence/ringfence/cmd/internal/logging"
	"github.com/ringfence/ringfence/internal/settings"
)

// Line is the last line of a terminal, which is drawn again and again.
type Line struct {
	terminal io.Writer
	columns  func() int
}

// NewLine returns nil if w is not a terminal that can show it.
func NewLine(w io.Writer, env []string) *Line {
	f, ok := logging.Direct(w).(*os.File)
	if !ok || !logging.IsTerminal(w) || settings.Lookup(env, "TERM") == "dumb" {
		return nil
	}
	return &Line{terminal: w, columns: func() int {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width
		}
		return 80
	}}
}

const clearLine = "\r\x1b[K"

// Draw replaces the line by a text for its width.
func (l *Line) Draw(text func(width int) string) {
	_, _ = io.WriteString(l.terminal, clearLine+text(l.columns()-1))
}

// EachSecond calls draw each second until stop is closed.
func EachSecond(stop <-chan struct{}, draw func()) {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for {
		select {
		case <-stop:
			return
		case <-second.C:
			draw()
		}
	}
}

// maxBar is how many characters a bar has at most.
const maxBar = 24

// Progress returns a bar that is done so far of all, between two texts, in at most width
// characters. It leaves the bar out if there is no room, or nothing to measure.
func Progress(before, after string, done, all, width int) string {
	room := min(width-utf8.RuneCountInString(before+after)-len("[]"), maxBar)
	if room < 4 || all == 0 {
		return cut(strings.TrimSpace(before+after), width)
	}
	full := int(int64(room) * int64(done) / int64(all))
	return before + "[" + strings.Repeat("#", full) + strings.Repeat(".", room-full) + "]" + after
}

func cut(s string, width int) string {
	if r := []rune(s); len(r) > max(width, 0) {
		return string(r[:max(width, 0)])
	}
	return s
}
