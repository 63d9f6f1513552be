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

// Now returns the time for an event: nanoseconds of CLOCK_MONOTONIC, which all processes of a
// machine share.
func Now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic("no monotonic clock: " + err.Error()) // POSIX requires one
	}
	return t.Nano()
}

// Writer writes a history. Each event is one Write, so a process that is killed at any point leaves
// whole lines.
type Writer struct {
	mu  sync.Mutex
	w   io.Writer
	err error
}

// NewWriter writes to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Add writes an event. If its At is 0, it gets the present time.
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

// Err returns the first error of Add. Nothing was written after it.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// longestLine is the maximum length of an event, in bytes.
const longestLine = 1 << 20

// Lines returns a scanner for lines that may be as long as an event.
func Lines(r io.Reader) *bufio.Scanner {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, longestLine)
	return lines
}

// Parse reads one line.
func Parse(line []byte) (e Event, err error) {
	if err := json.Unmarshal(line, &e); err != nil {
		return e, fmt.Errorf("not an event: %w", err)
	}
	if e.Kind == "" {
		return e, errors.New("an event without a kind")
	}
	return e, nil
}

// Read reads a whole history. An error names the line.
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
	lines := Lines(r)
	n := 0
	for lines.Scan() {
		n++
		e, err := Parse(lines.Bytes())
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
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
