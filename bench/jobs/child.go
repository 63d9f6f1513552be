package jobs

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ringfence/ringfence/bench/internal/program"
)

// duty is what a worker process has to do. It is its argument, as JSON.
type duty struct {
	Way      string
	URL      string
	Queue    string // of River; otherwise the group
	Store    string // the URL of the store on which it raises the mark; empty: none
	Name     string
	Capacity int
	Mode     mode
	Timeout  time.Duration // of its session
	Profile  string        // a file; empty: no profile
}

// mode is what a worker's handler does.
type mode string

const (
	idle  mode = "idle"  // it takes no jobs; it may assign
	gated mode = "gated" // it waits until its worker is told to begin, and does nothing then
	quick mode = "quick" // it says that it was called
	held  mode = "held"  // and waits until its worker ends
)

// kind is the kind of every job.
const kind = "bench"

// Child is a worker. It prints "ready" when it has begun, and "begun JOB NANOSECONDS" where its
// mode says so. It begins gated jobs when it reads a line, and ends with its stdin.
func Child(ctx context.Context, args []string, out io.Writer) (err error) {
	var d duty
	if err := json.Unmarshal([]byte(args[0]), &d); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if d.Profile != "" {
		end, err := profile(d.Profile)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, end()) }()
	}
	h := &handler{mode: d.Mode, out: out, gate: make(chan struct{})}
	go func() {
		lines := bufio.NewScanner(os.Stdin)
		if lines.Scan() {
			close(h.gate)
		}
		for lines.Scan() {
		}
		stop()
	}()
	if d.Way == withRiver {
		return riverWorker(ctx, d, h)
	}
	return ringfenceWorker(ctx, d, h)
}

// profile writes a CPU profile until end is called.
func profile(file string) (end func() error, err error) {
	f, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, err
	}
	return func() error { pprof.StopCPUProfile(); return f.Close() }, nil
}

// handler is what every job is handed to.
type handler struct {
	mode mode
	gate chan struct{} // closed: gated jobs may begin

	mu  sync.Mutex
	out io.Writer
}

func (h *handler) say(line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	fmt.Fprintln(h.out, line)
}

// handle handles a job, of which it knows the number.
func (h *handler) handle(ctx context.Context, job int) error {
	called := time.Now()
	if h.mode == gated {
		select {
		case <-h.gate:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	h.say(fmt.Sprintf("begun %d %d", job, called.UnixNano()))
	if h.mode == held {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return nil
}

// child is a worker's process.
type child struct {
	*program.Child
	begun chan begin
	ready chan struct{}
}

// begin is the call of a handler.
type begin struct {
	job int
	at  time.Time
}

func startChild(d duty) (*child, error) {
	argument, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	c := &child{begun: make(chan begin, 10_000), ready: make(chan struct{})}
	c.Child, err = program.StartChild("jobs", c.read, string(argument))
	return c, err
}

// read reads a line that the child prints.
func (c *child) read(line string) {
	if line == "ready" {
		close(c.ready)
		return
	}
	var job int
	var at int64
	if _, err := fmt.Sscanf(line, "begun %d %d", &job, &at); err == nil {
		c.begun <- begin{job, time.Unix(0, at)}
	}
}

// isReady waits until the child has begun to work.
func (c *child) isReady(ctx context.Context) error {
	select {
	case <-c.ready:
		return nil
	case <-c.Ended:
		return errors.New("a worker has ended")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// next waits for the next call of a handler.
func (c *child) next(ctx context.Context) (begin, error) {
	select {
	case b := <-c.begun:
		return b, nil
	case <-c.Ended:
		return begin{}, errors.New("a worker has ended")
	case <-ctx.Done():
		return begin{}, context.Cause(ctx)
	}
}

// open lets gated jobs begin.
func (c *child) open() error {
	_, err := io.WriteString(c.Stdin, "go\n")
	return err
}

// peak is the most memory that the child has had, in MiB (Linux).
func (c *child) peak() (float64, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(c.PID()), "status"))
	if err != nil {
		return 0, err
	}
	_, after, found := strings.Cut(string(text), "VmHWM:")
	if !found {
		return 0, errors.New("the system does not say how much memory a process has had")
	}
	kib, err := strconv.ParseFloat(strings.Fields(after)[0], 64)
	return kib / 1024, err
}
