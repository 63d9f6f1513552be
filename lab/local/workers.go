package local

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/ringfence/ringfence/internal/servers"
	"github.com/ringfence/ringfence/lab"
	"github.com/ringfence/ringfence/lab/history"
)

const (
	longestLine = 1 << 20
	// drainTime is how long the end of a worker waits for what it has still said: a command that lives on keeps its
	// output open.
	drainTime = time.Second
	closeTime = 5 * time.Second
)

// worker is what the lab keeps of one worker, over all its starts.
type worker struct {
	name      string
	env       []string
	failpoint string
	events    func(history.Event)

	all sync.WaitGroup // readers, and those who tell of an end

	mu       sync.Mutex
	starts   int
	expected bool          // the present run is being ended by the lab
	outputs  []*os.File    // that are being read
	drained  chan struct{} // closed once the present run's output has ended
}

// prepareWorkers makes the programs and links of the workers.
func (s *System) prepareWorkers(context.Context) error {
	for _, name := range s.build.Topology.WorkerNames() {
		r, err := s.link(name)
		if err != nil {
			return err
		}
		w := &worker{name: name, env: s.workerEnviron(name, r), failpoint: s.build.Workload.Failpoints[name], events: s.build.Events}
		p, err := servers.NewProgram(servers.ProgramOptions{
			Name: name, Command: s.workerCommand(), Log: filepath.Join(s.build.Dir, name+".log"),
			Env: w.environ, Stdout: w.listen, Exited: w.exited,
		})
		if err != nil {
			return err
		}
		s.workers[name], s.processes[name] = w, p
	}
	return nil
}

func (s *System) workerCommand() []string {
	p := s.build.Programs
	if s.build.Workload.Kind == lab.Commands {
		return []string{p.Leader, "run", lab.Resource, "--", p.Worker}
	}
	return []string{p.Worker}
}

// workerEnviron is worker.Config as variables, and leader's settings where it runs the worker.
func (s *System) workerEnviron(name string, r routes) []string {
	t, w := s.build.Topology, s.build.Workload
	env := []string{s.brand.value}
	set := func(name, value string) {
		if value != "" {
			env = append(env, name+"="+value)
		}
	}
	lasting := func(name string, d time.Duration) {
		if d != 0 {
			set(name, d.String())
		}
	}
	set("LAB_NAME", name)
	set("LAB_COORDINATOR", r.coordinator)
	lasting("LAB_SESSION", t.Session)
	set("LAB_POSTGRES", r.postgres)
	set("LAB_REDIS", r.redis)
	set("LAB_RAISE", r.raise)
	set("LAB_JOURNAL", r.journal)
	set("LAB_WORLD", r.world)
	set("LAB_ROUTE", string(t.Route))
	set("LAB_KIND", string(w.Kind))
	set("LAB_MANNERS", string(w.Manners))
	lasting("LAB_PAUSE", w.Pause)
	lasting("LAB_HEALTH", w.Health)
	if w.Rounds != 0 {
		set("LAB_ROUNDS", strconv.FormatInt(w.Rounds, 10))
	}
	set("LAB_FLAW", w.Flaw)
	set("LAB_CHILD", w.Child)
	lasting("LAB_CLOCK_JUMP", w.ClockJump)
	if w.Kind == lab.Commands {
		set("LEADER_COORDINATOR", r.coordinator)
		lasting("LEADER_SESSION_TIMEOUT", t.Session)
		set("LEADER_HOLDER", name)
		if t.Route != lab.Direct {
			set("LEADER_STORES", r.postgres+","+r.redis)
		}
	}
	return env
}

// environ is the environment of one start; only the first one has the failpoint.
func (w *worker) environ() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.starts++
	if w.starts == 1 && w.failpoint != "" {
		return append([]string{"LAB_FAILPOINT=" + w.failpoint}, w.env...)
	}
	return w.env
}

// listen makes the pipe that one run writes its history to, and reads it until nobody has it open any more.
func (w *worker) listen() (*os.File, error) {
	from, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	drained := make(chan struct{})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.expected, w.drained = false, drained
	w.outputs = append(w.outputs, from)
	w.all.Go(func() {
		defer close(drained)
		defer from.Close()
		w.read(from)
	})
	return to, nil
}

// read hands on events. What is none is a note: it may explain why a run went wrong.
func (w *worker) read(from io.Reader) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, longestLine)
	for lines.Scan() {
		var e history.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil || e.Kind == "" {
			w.note("said what is no event: " + lines.Text())
			continue
		}
		w.events(e)
	}
	_, _ = io.Copy(io.Discard, from) // behind a line that is too long; a worker must not wait for us
}

func (w *worker) note(text string) {
	w.events(history.Event{At: history.Now(), Kind: history.Note, Process: w.name, Text: text})
}

// expectEnd says that the present run is ended by the lab.
func (w *worker) expectEnd() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.expected = true
}

// exited tells of a run that has ended by itself, after everything that the run has said.
func (w *worker) exited(state *os.ProcessState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.expected {
		return
	}
	drained := w.drained
	w.all.Go(func() {
		t := time.NewTimer(drainTime)
		defer t.Stop()
		select {
		case <-drained:
		case <-t.C:
		}
		w.note(fmt.Sprintf("%sexit code %d", lab.Ended, exitCode(state)))
	})
}

// exitCode is as shells and containers have it: 128 and the number of the signal that ended a process.
func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}

// finish waits for the readers, which end with the last process that has the output open. The process must have ended.
func (w *worker) finish() {
	w.mu.Lock()
	for _, from := range w.outputs {
		_ = from.SetReadDeadline(time.Now().Add(closeTime))
	}
	w.mu.Unlock()
	w.all.Wait()
}
