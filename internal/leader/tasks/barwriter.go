package tasks

import "io"

// Write implements io.Writer: it writes above the bar, to its terminal.
func (b *Bar) Write(text []byte) (int, error) { return b.above(b.terminal, text) }

// around returns a writer that writes to w above the bar.
func (b *Bar) around(w io.Writer) io.Writer { return aboveBar{b, w} }

type aboveBar struct {
	bar *Bar
	w   io.Writer
}

// Write implements io.Writer.
func (a aboveBar) Write(text []byte) (int, error) { return a.bar.above(a.w, text) }

// above removes the bar, writes, and draws the bar again once the output ends with a newline.
func (b *Bar) above(w io.Writer, text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.drawn {
		_, _ = io.WriteString(b.terminal, clearLine)
		b.drawn = false
	}
	n, err := w.Write(text)
	if len(text) > 0 {
		b.midline = text[len(text)-1] != '\n'
	}
	b.draw()
	return n, err
}
