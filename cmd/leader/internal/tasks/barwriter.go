package tasks

import (
	"io"

	"github.com/ringfence/ringfence/cmd/internal/logging"
)

// streams returns where the output of commands goes. Only what is copied to the terminal has to
// stay above the bar. A command inherits any other standard output.
func (inv *Invocation) streams() (stdout, stderr io.Writer) {
	stdout, log := logging.Direct(inv.Stdout), inv.Stderr
	if inv.Bar == nil {
		return stdout, logging.Paced(log, log)
	}
	above := logging.Paced(inv.Bar, log)
	if logging.IsTerminal(stdout) {
		stdout = above
	}
	return stdout, above
}

// Write implements io.Writer. It removes the bar, writes to its terminal, and draws the bar again
// once the output ends with a newline.
func (b *Bar) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.drawn {
		_, _ = io.WriteString(b.terminal, clearLine)
		b.drawn = false
	}
	n, err := b.terminal.Write(text)
	if len(text) > 0 {
		b.midline = text[len(text)-1] != '\n'
	}
	b.draw()
	return n, err
}
