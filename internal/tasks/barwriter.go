package tasks

import "io"

// Write implements io.Writer: above the bar, on its terminal.
func (b *Bar) Write(text []byte) (int, error) { return b.above(b.terminal, text) }

// around is w as a writer that keeps out of the bar's way.
func (b *Bar) around(w io.Writer) io.Writer { return aboveBar{b, w} }

type aboveBar struct {
	bar *Bar
	w   io.Writer
}

// Write implements io.Writer.
func (a aboveBar) Write(text []byte) (int, error) { return a.bar.above(a.w, text) }

// above takes the bar away, writes, and draws it again below: at the next end of a line.
func (b *Bar) above(w io.Writer, text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.drawn {
		_, _ = io.WriteString(b.terminal, "\r\x1b[K")
		b.drawn = false
	}
	n, err := w.Write(text)
	if len(text) > 0 {
		b.midline = text[len(text)-1] != '\n'
	}
	b.draw()
	return n, err
}
