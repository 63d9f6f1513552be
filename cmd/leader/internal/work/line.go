package work

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/cmd/leader/internal/tasks"
	"github.com/ringfence/ringfence/jobs/job"
)

// line shows how far a job is. On a terminal it is one line that moves on each second; elsewhere, a
// line for each change.
type line struct {
	w        io.Writer
	terminal *tasks.Line   // nil elsewhere
	limit    time.Duration // of one try; 0 if there is none

	mu    sync.Mutex
	now   job.Status
	note  string // why it waits
	steps checkpoint.Checkpoint
	last  string    // what was written
	since time.Time // of the waiting, or of the try
	began time.Time
}

func newLine(w io.Writer, env []string, limit time.Duration) *line {
	return &line{
		w: w, terminal: tasks.NewLine(w, env), limit: limit, began: time.Now(), since: time.Now(),
	}
}

// tick draws the line each second until stop is closed.
func (l *line) tick(stop <-chan struct{}) {
	if l.terminal != nil {
		tasks.EachSecond(stop, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.draw()
		})
	}
}

// show takes a status over, with the reason why nobody runs it, if there is one.
func (l *line) show(s job.Status, note string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.State != l.now.State || s.Attempt != l.now.Attempt {
		l.since = time.Now()
	}
	l.now, l.note = s, note
	text := progress(s)
	if note != "" {
		text += ": " + note
	}
	if l.terminal != nil {
		l.draw()
	} else if text != l.last {
		l.last = text
		fmt.Fprintf(l.w, "%6.1fs  %s\n", time.Since(l.began).Seconds(), text)
	}
}

// step takes a checkpoint of the job's task over.
func (l *line) step(c checkpoint.Checkpoint) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.steps = c; l.terminal != nil {
		l.draw()
	}
}

// end leaves the line on the terminal.
func (l *line) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.terminal != nil && l.last != "" {
		fmt.Fprintln(l.w)
	}
}

// draw needs mu.
func (l *line) draw() {
	if l.now.ID == "" {
		return
	}
	l.terminal.Draw(func(width int) string {
		l.last = l.text(width, time.Since(l.since))
		return l.last
	})
}

// text returns the line, in at most width characters: a bar where there is something to measure,
// what the job does, and for how long. The bar counts the steps of a task, or measures a try's time
// limit.
func (l *line) text(width int, elapsed time.Duration) string {
	s := elapsed.Truncate(time.Second)
	doing := progress(l.now)
	if l.note != "" {
		doing += ": " + l.note
	}
	done, all, counted := 0, 0, ""
	switch running := l.now.State == job.Running; {
	case len(l.steps.Steps) > 0:
		done, all = l.steps.Step, len(l.steps.Steps)
		if l.now.State == job.Done { // the last reading of the journal was before
			done = all
		}
		counted = fmt.Sprintf(" %d/%d", done, all)
		if next := l.steps.Next(); next != "" && !l.now.State.Finished() {
			counted += " " + cli.Printable(next)
		}
	case running && l.limit > 0:
		done, all = int(min(elapsed, l.limit)), int(l.limit)
	}
	rest := fmt.Sprintf("%s  %d:%02d", doing, int(s.Minutes()), int(s.Seconds())%60)
	if l.now.State.Finished() {
		rest = doing
	}
	return tasks.Progress("", counted+"  "+rest, done, all, width)
}
