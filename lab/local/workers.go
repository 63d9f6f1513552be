package local

import (
	"context"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/system"
)

const (
	// drainTime is how long a worker's end waits for the rest of its output: a command that lives
	// on keeps the output open.
	drainTime = time.Second
	closeTime = 5 * time.Second
)

// worker is one worker, over all its starts.
type worker struct {
	output system.Output
	env    func(restarted bool) []string

	all sync.WaitGroup // goroutines that read output or report an end

	mu       sync.Mutex
	started  bool
	expected bool          // the lab is ending the present run
	outputs  []*os.File    // that are being read
	drained  chan struct{} // closed once the present run's output has ended
}

// prepareWorkers prepares the programs and links of the workers.
func (s *System) prepareWorkers(context.Context) error {
	for _, name := range s.build.Topology.WorkerNames() {
		routes, err := s.linked(name)
		if err != nil {
			return err
		}
		w := &worker{
			output: system.Output{Worker: name, Events: s.build.Events},
			env: func(restarted bool) []string {
				env := []string{s.tag.value}
				for name, value := range s.build.WorkerEnv(name, routes, restarted) {
					env = append(env, name+"="+value)
				}
				return env
			},
		}
		programs := s.build.Programs
		p, err := s.newProgram(servers.ProgramOptions{
			Name:    name,
			Command: s.build.Workload.WorkerCommand(programs.Leader, programs.Worker),
			Env:     w.environ, Stdout: w.listen, Exited: w.exited,
		})
		if err != nil {
			return err
		}
		s.workers[name], s.processes[name] = w, p
	}
	return nil
}

// environ returns the environment of one start. Only the first one has the failpoint.
func (w *worker) environ() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	env := w.env(w.started)
	w.started = true
	return env
}

// listen makes the pipe for the output of one run, and reads it until nobody has it open any more.
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

func (w *worker) read(from io.Reader) {
	lines := history.Lines(from)
	for lines.Scan() {
		w.output.Line(lines.Bytes())
	}
	// after a line that is too long, so that the worker never blocks
	_, _ = io.Copy(io.Discard, from)
}

// expectEnd says that the lab is about to end the present run.
func (w *worker) expectEnd() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.expected = true
}

// exited reports a run that has ended by itself, after all its output.
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
		w.output.Ended(exitCode(state))
	})
}

// exitCode returns what shells and containers would: 128 and the number of the signal that ended a
// process.
func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}

// finish waits for the readers, which end with the last process that has the output open. The
// process must have ended.
func (w *worker) finish() {
	w.mu.Lock()
	for _, from := range w.outputs {
		_ = from.SetReadDeadline(time.Now().Add(closeTime))
	}
	w.mu.Unlock()
	w.all.Wait()
}
