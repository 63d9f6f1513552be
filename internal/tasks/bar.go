package tasks

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/internal/logging"
	"github.com/ringfence/ringfence/internal/settings"
)

// Bar is the progress bar of a task on a terminal. It stays below the lines that are written
// through it. A nil bar shows nothing.
type Bar struct {
	terminal io.Writer
	columns  func() int

	mu      sync.Mutex
	begun   bool // and not ended
	drawn   bool
	midline bool // the last output did not end its line
	task    string
	doing   string
	cp      checkpoint.Checkpoint
	since   time.Time // when this copy began to wait, or to lead
}

// NewBar returns nil if w is not a terminal that can show it.
func NewBar(w io.Writer, env []string) *Bar {
	if !logging.IsTerminal(w) || settings.Lookup(env, "TERM") == "dumb" {
		return nil
	}
	fd := int(w.(*os.File).Fd())
	return &Bar{terminal: w, columns: func() int {
		width, _, err := term.GetSize(fd)
		if err != nil || width <= 0 {
			return 80
		}
		return width
	}}
}

// begin draws the bar each second until end is called, which leaves the last line on the terminal.
func (b *Bar) begin(task string) (end func()) {
	b.mu.Lock()
	b.begun, b.task, b.since, b.doing = true, task, time.Now(), "waits to lead"
	b.draw()
	b.mu.Unlock()
	stop := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() { b.tick(stop) })
	return func() {
		close(stop)
		done.Wait()
		b.mu.Lock()
		defer b.mu.Unlock()
		b.draw()
		if b.begun = false; b.drawn {
			_, _ = io.WriteString(b.terminal, "\n")
		}
	}
}

func (b *Bar) tick(stop <-chan struct{}) {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for {
		select {
		case <-stop:
			return
		case <-second.C:
			b.mu.Lock()
			b.draw()
			b.mu.Unlock()
		}
	}
}

// show updates the bar with an event.
func (b *Bar) show(e checkpoint.Event) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if e.Checkpoint.Version > 0 || len(e.Checkpoint.Steps) > 0 {
		b.cp = e.Checkpoint
	}
	if e.Kind == checkpoint.TookOver {
		b.since = time.Now()
	}
	b.doing = doing(e)
	b.draw()
}

// say shows the current activity.
func (b *Bar) say(what string) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.doing = what
	b.draw()
}

// doing describes the event in a few words.
func doing(e checkpoint.Event) string {
	switch e.Kind {
	case checkpoint.Began:
		if e.Attempt > 1 {
			return fmt.Sprintf("%s (attempt %d)", e.Step, e.Attempt)
		}
		return e.Step
	case checkpoint.Retrying:
		return e.Step + " is retried in " + short(e.Wait)
	case checkpoint.Paused:
		return "paused: the coordinator is out of reach"
	case checkpoint.Interrupted:
		return "interrupted"
	case checkpoint.Halted:
		return "stopped at " + e.Step
	case checkpoint.Completed:
		return "done"
	}
	return e.Checkpoint.Next()
}

// draw needs mu.
func (b *Bar) draw() {
	if !b.begun || b.midline {
		return
	}
	line := b.line(b.columns()-1, time.Since(b.since))
	_, _ = io.WriteString(b.terminal, "\r\x1b[K"+line)
	b.drawn = true
}

// line returns the bar, in at most width characters.
func (b *Bar) line(width int, elapsed time.Duration) string {
	took := fmt.Sprintf("%d:%02d", int(elapsed.Minutes()), int(elapsed.Seconds())%60)
	if elapsed >= time.Hour {
		took = fmt.Sprintf("%d:%02d:%02d",
			int(elapsed.Hours()), int(elapsed.Minutes())%60, int(elapsed.Seconds())%60)
	}
	name, all, ended := b.task, len(b.cp.Steps), b.cp.Step
	if all == 0 {
		return cut(fmt.Sprintf("%s  %s  %s", name, b.doing, took), width)
	}
	text := fmt.Sprintf("%d/%d  %s  round %s  run %d  %s",
		ended, all, b.doing, rounds(b.cp), b.cp.Run, took)
	room := min(width-utf8.RuneCountInString(name+text)-len(" [] "), 24)
	if room < 4 {
		return cut(name+"  "+text, width)
	}
	full := room * ended / all
	return name + " [" + strings.Repeat("#", full) + strings.Repeat(".", room-full) + "] " + text
}

// rounds is the round: "1/3".
func rounds(cp checkpoint.Checkpoint) string {
	if cp.Rounds == checkpoint.Forever {
		return fmt.Sprint(cp.Round)
	}
	return fmt.Sprintf("%d/%d", cp.Round, cp.Rounds)
}

func cut(s string, width int) string {
	if r := []rune(s); len(r) > max(width, 0) {
		return string(r[:max(width, 0)])
	}
	return s
}
