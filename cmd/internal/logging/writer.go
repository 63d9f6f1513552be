package logging

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc/grpclog"
)

const (
	// maxText is how many bytes wait at most while the file takes none.
	maxText = 1 << 20
	// patience bounds how long the end of the program waits for the last lines, and how long the
	// output of a command waits for room.
	patience = time.Second
	// busyFile is the pause before a file that was made non-blocking is tried again.
	busyFile = 10 * time.Millisecond
)

// Writer passes lines on to a file, such as standard error, and never waits for it. A full pipe, a
// stopped terminal or a reader that is gone costs lines and nothing else. The Writer counts these
// lines, and reports their number once the file takes text again. The order of lines is kept.
type Writer struct {
	file    *os.File
	dropped atomic.Uint64
	wake    chan struct{} // has an element if there may be something to do
	done    chan struct{} // closed when the owner of the file has ended

	mu     sync.Mutex
	text   []byte // not yet taken by the owner
	missed int    // lines that came while text was full
	busy   bool   // the owner writes
	closed bool
	moved  chan struct{} // closed at each step of the owner

	midline bool // the file's last text did not end its line; only for the owner
}

// Open starts a Writer for a program's standard error. What libraries log goes to it as well. From
// now on a write to a pipe without a reader is an error and does not end the program. Call Close at
// the end.
//
// SIGPIPE is handled and not ignored, because commands would inherit that it is ignored.
func Open(file *os.File) *Writer {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	w := newWriter(file)
	log.SetOutput(w)
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, w))
	return w
}

func newWriter(file *os.File) *Writer {
	w := &Writer{
		file: file, wake: make(chan struct{}, 1), done: make(chan struct{}), moved: make(chan struct{}),
	}
	go w.run()
	return w
}

// Write implements io.Writer. It never fails and never waits.
func (w *Writer) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.room(len(b)) {
		w.text = append(w.text, b...)
	} else {
		n := lines(b)
		w.missed += n
		w.dropped.Add(uint64(n))
	}
	w.rouse()
	return len(b), nil
}

// Dropped returns how many lines the file has not got.
func (w *Writer) Dropped() uint64 { return w.dropped.Load() }

// Close waits a second at most for the last lines. Later ones are dropped.
func (w *Writer) Close() {
	w.mu.Lock()
	w.closed = true
	w.rouse()
	w.mu.Unlock()
	end := time.NewTimer(patience)
	defer end.Stop()
	select {
	case <-w.done:
	case <-end.C: // the owner ends with the process
	}
}

// room needs mu. After the first dropped line there is none until the owner has taken all, so that
// the count comes where the lines are missing.
func (w *Writer) room(n int) bool { return w.missed == 0 && !w.closed && len(w.text)+n <= maxText }

func (w *Writer) rouse() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// await waits until a condition holds, which is read under mu, or ctx ends.
func (w *Writer) await(ctx context.Context, holds func() bool) {
	for {
		w.mu.Lock()
		ready, moved := holds(), w.moved
		w.mu.Unlock()
		if ready {
			return
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return
		}
	}
}

// run owns the file: nothing else waits for it.
func (w *Writer) run() {
	defer close(w.done)
	var spare []byte
	lost := 0
	for {
		text, missed, closed := w.next(spare)
		switch {
		case len(text) > 0 || missed > 0:
			lost = w.pass(lost, text, missed)
			spare = text[:0]
		case closed:
			return
		default:
			<-w.wake
		}
	}
}

// next returns the text that waits, and how many lines are missing behind it.
func (w *Writer) next(spare []byte) (text []byte, missed int, closed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy = len(w.text) > 0 || w.missed > 0; w.busy {
		text, missed = w.text, w.missed
		w.text, w.missed = spare, 0
	}
	close(w.moved)
	w.moved = make(chan struct{})
	return text, missed, w.closed
}

// pass writes a text, with the count of the lines that are missing before it and behind it. It
// returns how many missing lines are not reported yet.
func (w *Writer) pass(lost int, text []byte, missed int) int {
	lost = w.report(lost)
	n := w.put(text)
	w.dropped.Add(uint64(n))
	return w.report(lost + n + missed)
}

// report writes how many lines were lost. It returns 0, or their number if the file does not take
// the report.
func (w *Writer) report(lost int) int {
	if lost == 0 {
		return 0
	}
	var line bytes.Buffer
	if w.midline {
		line.WriteByte('\n')
	}
	slog.New(handler(&line, IsTerminal(w.file), nil)).Warn("lines of the log were dropped here: "+
		"standard error did not take them in time", "count", lost)
	if w.put(line.Bytes()) > 0 {
		return lost
	}
	return 0
}

// put writes a text. It returns how many of its lines the file did not take.
func (w *Writer) put(text []byte) (lost int) {
	for len(text) > 0 {
		n, err := w.file.Write(text)
		if n > 0 {
			w.midline = text[n-1] != '\n'
		}
		text = text[n:]
		switch {
		case errors.Is(err, syscall.EAGAIN): // another process has made the file non-blocking
			time.Sleep(busyFile)
		case err != nil:
			return lines(text)
		}
	}
	return 0
}

// lines counts a last line without an end as one.
func lines(text []byte) int {
	n := bytes.Count(text, []byte{'\n'})
	if len(text) > 0 && text[len(text)-1] != '\n' {
		n++
	}
	return n
}
