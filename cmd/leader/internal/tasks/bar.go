package tasks

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/taskevent"
)

// Bar is the progress bar of a task on a terminal. It stays below the lines that are written
// through it. A nil bar shows nothing.
type Bar struct {
	*Line

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
	if l := NewLine(w, env); l != nil {
		return &Bar{Line: l}
	}
	return nil
}

// begin draws the bar each second until end is called, which leaves the last line on the terminal.
func (b *Bar) begin(task string) (end func()) {
	b.mu.Lock()
	b.begun, b.task, b.since, b.doing = true, task, time.Now(), "waits to lead"
	b.draw()
	b.mu.Unlock()
	stop := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		EachSecond(stop, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.draw()
		})
	})
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
	if e.Kind == taskevent.TookOver {
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
	case taskevent.Began:
		if e.Attempt > 1 {
			return fmt.Sprintf("%s (attempt %d)", e.Step, e.Attempt)
		}
		return e.Step
	case taskevent.Retrying:
		return e.Step + " is retried in " + short(e.Wait)
	case taskevent.Paused:
		return "paused: the coordinator is out of reach"
	case taskevent.Interrupted:
		return "interrupted"
	case taskevent.Halted:
		return "stopped at " + e.Step
	case taskevent.Completed:
		return "done"
	}
	return e.Checkpoint.Next()
}

// draw needs mu.
func (b *Bar) draw() {
	if !b.begun || b.midline {
		return
	}
	b.Draw(func(width int) string { return b.line(width, time.Since(b.since)) })
	b.drawn = true
}

// line returns the bar, in at most width characters.
func (b *Bar) line(width int, elapsed time.Duration) string {
	took := fmt.Sprintf("%d:%02d", int(elapsed.Minutes()), int(elapsed.Seconds())%60)
	if elapsed >= time.Hour {
		took = fmt.Sprintf("%d:%02d:%02d",
			int(elapsed.Hours()), int(elapsed.Minutes())%60, int(elapsed.Seconds())%60)
	}
	all := len(b.cp.Steps)
	if all == 0 {
		return cut(fmt.Sprintf("%s  %s  %s", b.task, b.doing, took), width)
	}
	text := fmt.Sprintf(" %d/%d  %s  round %s  run %d  %s", b.cp.Step, all, b.doing, rounds(b.cp),
		b.cp.Run, took)
	return Progress(b.task+" ", text, b.cp.Step, all, width)
}

// rounds is the round: "1/3".
func rounds(cp checkpoint.Checkpoint) string {
	if cp.Rounds == checkpoint.Forever {
		return fmt.Sprint(cp.Round)
	}
	return fmt.Sprintf("%d/%d", cp.Round, cp.Rounds)
}
