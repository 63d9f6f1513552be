package system

import (
	"fmt"

	"github.com/ringfence/ringfence/lab/history"
)

// Output is what a worker prints and how it ends, as events. Both injectors report through it.
type Output struct {
	Worker string
	Events func(history.Event)
}

// Line reports one line of the worker's output. A line that is not an event becomes a note, which
// may explain why a run went wrong.
func (o Output) Line(line []byte) {
	e, err := history.Parse(line)
	if err != nil {
		o.Note("not an event: " + string(line))
		return
	}
	o.Events(e)
}

// Note reports something about the worker.
func (o Output) Note(text string) {
	o.Events(history.Event{
		At: history.Now(), Kind: history.Note, Process: o.Worker, Text: text,
	})
}

// Ended reports that the worker has ended, and that the lab did not end it.
func (o Output) Ended(exitCode int) {
	o.Note(fmt.Sprintf("%sexit code %d", history.Ended, exitCode))
}
