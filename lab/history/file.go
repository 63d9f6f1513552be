package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"golang.org/x/sys/unix"
)

// Now is the time of an event: nanoseconds of CLOCK_MONOTONIC, the same for all processes of a machine.
func Now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic("no monotonic clock: " + err.Error()) // POSIX demands one of every system that the lab runs on
	}
	return t.Nano()
}

// Writer writes a history. Each event is one Write, so that a process killed at any point leaves whole lines.
type Writer struct {
	mu  sync.Mutex
	w   io.Writer
	err error
}

// NewWriter writes to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Add writes an event, at its At or, where that is 0, now.
func (w *Writer) Add(e Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.At == 0 {
		e.At = Now()
	}
	line, err := json.Marshal(e)
	if err == nil && w.err == nil {
		_, err = w.w.Write(append(line, '\n'))
	}
	w.err = errors.Join(w.err, err)
}

// Err is the first error of Add; what came after it was not written.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// longestLine bounds one event.
const longestLine = 1 << 20

// Read reads a whole history. The error names the line.
func Read(r io.Reader) ([]Event, error) {
	var all []Event
	err := Each(r, func(e Event) error {
		all = append(all, e)
		return nil
	})
	return all, err
}

// Each calls do with every event until one fails.
func Each(r io.Reader, do func(Event) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, longestLine)
	n := 0
	for lines.Scan() {
		n++
		var e Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return fmt.Errorf("line %d: not an event: %w", n, err)
		}
		if e.Kind == "" {
			return fmt.Errorf("line %d: an event without a kind", n)
		}
		if err := do(e); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("after line %d: %w", n, err)
	}
	return nil
}
