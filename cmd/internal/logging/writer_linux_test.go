package logging

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringfence/ringfence/internal/test/must"
)

// pipe returns a pipe as a program inherits it: the write end blocks.
func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	var fds [2]int
	must.Succeed(t, unix.Pipe2(fds[:], unix.O_CLOEXEC))
	r, w = os.NewFile(uintptr(fds[0]), "r"), os.NewFile(uintptr(fds[1]), "w")
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// opened is a Writer whose owner ends with the test.
func opened(t *testing.T, r, file *os.File) *Writer {
	t.Helper()
	w := newWriter(file)
	t.Cleanup(func() {
		r.Close() // ends a write that waits
		w.Close()
		<-w.done
	})
	return w
}

// flood writes numbered lines until at least n were dropped, and returns how many it has written.
func flood(w *Writer, n int) (written int) {
	missed := func() int { w.mu.Lock(); defer w.mu.Unlock(); return w.missed }
	for ; missed() < n; written++ {
		fmt.Fprintf(w, "%d %s\n", written, strings.Repeat("x", 1000))
	}
	return written
}

// scan reads the lines of flood, which have to follow each other, and the count of those that are
// missing.
func scan(t *testing.T, lines *bufio.Scanner) (next, count int) {
	t.Helper()
	for lines.Scan() {
		var report struct {
			Msg   string
			Count int
		}
		if json.Unmarshal(lines.Bytes(), &report) == nil && report.Count > 0 {
			if !strings.Contains(report.Msg, "dropped here") {
				t.Errorf("got %s", lines.Bytes())
			}
			return next, report.Count
		}
		var number int
		if _, err := fmt.Sscan(lines.Text(), &number); err != nil || number != next {
			t.Fatalf("line %d follows %d (%v)", number, next-1, err)
		}
		next++
	}
	t.Fatalf("no count: %v", lines.Err())
	return 0, 0
}

func TestAFullPipeCostsLinesThatAreCountedWhereTheyAreMissing(t *testing.T) {
	r, file := pipe(t)
	w := opened(t, r, file)
	written := flood(w, 100)
	if w.Dropped() == 0 {
		t.Error("the lines are not counted while nothing reads")
	}
	lines := bufio.NewScanner(r)
	kept, count := scan(t, lines)
	if kept+count != written || kept*1000 < maxText {
		t.Errorf("%d lines and a count of %d, of %d", kept, count, written)
	}
	fmt.Fprintln(w, "afterwards")
	if lines.Scan(); lines.Text() != "afterwards" {
		t.Errorf("got %q", lines.Text())
	}
	if int(w.Dropped()) != count {
		t.Errorf("dropped %d, want %d", w.Dropped(), count)
	}
}

func TestAFileThatWasMadeNonBlockingLosesNothing(t *testing.T) {
	r, file := pipe(t)
	w := opened(t, r, file)
	must.Succeed(t, unix.SetNonblock(int(file.Fd()), true))
	written := flood(w, 1)
	if kept, count := scan(t, bufio.NewScanner(r)); kept+count != written {
		t.Errorf("%d lines and a count of %d, of %d", kept, count, written)
	}
}

func TestAReaderThatComesBackIsToldHowManyLinesItHasMissed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	must.Succeed(t, unix.Mkfifo(path, 0o600))
	r, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	must.Succeed(t, err)
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	must.Succeed(t, err)
	defer file.Close()
	w := opened(t, r, file)
	r.Close()
	for n := range 3 {
		fmt.Fprintln(w, "into the void")
		for w.Dropped() != uint64(n+1) {
			time.Sleep(time.Millisecond)
		}
	}
	back, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	must.Succeed(t, err)
	defer back.Close()
	fmt.Fprintln(w, "heard")
	lines := bufio.NewScanner(back)
	if _, count := scan(t, lines); count != 3 {
		t.Errorf("a count of %d", count)
	}
	if lines.Scan(); lines.Text() != "heard" {
		t.Errorf("got %q", lines.Text())
	}
}

func TestTheEndWaitsForTheLastLinesButNotForAFullPipe(t *testing.T) {
	r, file := pipe(t)
	w := newWriter(file)
	fmt.Fprintln(w, "the last line")
	w.Close()
	file.Close()
	if text, _ := io.ReadAll(r); string(text) != "the last line\n" {
		t.Errorf("got %q", text)
	}
	r, file = pipe(t)
	stuck := opened(t, r, file)
	flood(stuck, 1)
	stuck.Close() // returns
}

func TestAPacedCommandLosesNothingToAReaderThatReads(t *testing.T) {
	r, file := pipe(t)
	w := opened(t, r, file)
	text := bytes.Repeat([]byte("0123456789abcde\n"), 4*maxText/16)
	read := make(chan []byte)
	go func() {
		got := make([]byte, len(text))
		_, _ = io.ReadFull(slowly{r}, got)
		read <- got
	}()
	for chunk := range slices.Chunk(text, 32<<10) {
		_, _ = Paced(w, w).Write(chunk)
	}
	if !bytes.Equal(<-read, text) || w.Dropped() > 0 {
		t.Errorf("%d lines were dropped", w.Dropped())
	}
}

// slowly reads little at a time.
type slowly struct{ r io.Reader }

func (s slowly) Read(b []byte) (int, error) {
	time.Sleep(100 * time.Microsecond)
	return s.r.Read(b[:min(len(b), 4<<10)])
}

func TestAPacedCommandGoesOnIfNothingReads(t *testing.T) {
	r, file := pipe(t)
	w := opened(t, r, file)
	flood(w, 1)
	if n, err := Paced(w, w).Write([]byte("on\n")); n != 3 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

func TestAnOutputIsWholeAndComesBehindTheLog(t *testing.T) {
	r, file := pipe(t)
	w := opened(t, r, file)
	out := NewOutput(t.Context(), w)
	result := bytes.Repeat([]byte("result\n"), maxText/2)
	go func() {
		fmt.Fprintln(w, "log")
		_, _ = out.Write(result)
		file.Close()
	}()
	want := append([]byte("log\n"), result...)
	if got, _ := io.ReadAll(r); !bytes.Equal(got, want) || out.Err() != nil {
		t.Errorf("%d bytes, want %d: %v", len(got), len(want), out.Err())
	}
}

func TestAnOutputThatNothingReadsEndsWithItsContext(t *testing.T) {
	r, file := pipe(t)
	ctx, cancel := context.WithCancel(t.Context())
	out := NewOutput(ctx, file)
	cancel()
	_, err := out.Write(make([]byte, 1<<20))
	if !errors.Is(err, context.Canceled) || out.Err() != nil {
		t.Errorf("%v, %v", err, out.Err())
	}
	r.Close()
}

func TestAnOutputWithoutAReaderIsAnError(t *testing.T) {
	r, file := pipe(t)
	r.Close()
	out := NewOutput(t.Context(), file)
	_, err := out.Write([]byte("x"))
	if !errors.Is(err, syscall.EPIPE) || !errors.Is(out.Err(), syscall.EPIPE) {
		t.Errorf("%v, %v", err, out.Err())
	}
}
