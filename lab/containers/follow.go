package containers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/client"

	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/system"
)

// followers read the output of workers from the engine's logs, and report each line once, over
// restarts and when the stream breaks off.
type followers struct {
	docker *client.Client
	events func(history.Event)
	ctx    context.Context
	stop   context.CancelFunc
	all    sync.WaitGroup

	mu  sync.Mutex
	run map[string]*following
}

// following is one run of a worker. A container keeps its log over restarts.
type following struct {
	output   system.Output
	id       string
	seen     int           // lines that were reported
	expected bool          // the lab is ending the present run
	done     chan struct{} // closed when all output of the present run was reported
}

func newFollowers(docker *client.Client, events func(history.Event)) *followers {
	ctx, stop := context.WithCancel(context.Background())
	if events == nil {
		events = func(history.Event) {}
	}
	return &followers{
		docker: docker, events: events, ctx: ctx, stop: stop, run: map[string]*following{},
	}
}

// follow reads from now on, until the container ends. It skips the output of earlier runs of the
// same container.
func (f *followers) follow(worker, id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := &following{
		output: system.Output{Worker: worker, Events: f.events}, id: id, done: make(chan struct{}),
	}
	if before := f.run[worker]; before != nil && before.id == id {
		now.seen = before.seen
	}
	f.run[worker] = now
	f.all.Go(func() {
		defer close(now.done)
		f.read(now)
	})
}

// expectEnd says that the lab is about to end the present run of a worker.
func (f *followers) expectEnd(worker string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.run[worker]; r != nil {
		r.expected = true
	}
}

// wait returns when all output of a worker until its end was reported. It returns at once for other
// processes.
func (f *followers) wait(ctx context.Context, worker string) error {
	f.mu.Lock()
	r := f.run[worker]
	f.mu.Unlock()
	if r == nil {
		return nil
	}
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("its log does not end: %w", context.Cause(ctx))
	}
}

// close stops all readers and waits for them.
func (f *followers) close() {
	f.stop()
	f.all.Wait()
}

// read follows the log until the container has ended, and then reads all of it once more: an engine
// may end a stream before its last lines.
func (f *followers) read(r *following) {
	var err error
	for {
		if err = f.stream(r, true); f.ctx.Err() != nil {
			return
		}
		now, inspectErr := f.docker.ContainerInspect(f.ctx, r.id, client.ContainerInspectOptions{})
		if inspectErr != nil || err != nil {
			err = errors.Join(err, inspectErr)
			break
		}
		if now.Container.State.Running {
			continue // the stream broke off
		}
		err = f.stream(r, false)
		f.mu.Lock()
		expected := r.expected
		f.mu.Unlock()
		if !expected {
			r.output.Ended(now.Container.State.ExitCode)
		}
		break
	}
	if err != nil && f.ctx.Err() == nil {
		r.output.Note("its output can no longer be read: " + err.Error())
	}
}

// stream reports the lines that are new. The engine stores long lines in pieces, and joins them.
func (f *followers) stream(r *following, follow bool) error {
	stream, err := f.docker.ContainerLogs(f.ctx, r.id,
		client.ContainerLogsOptions{ShowStdout: true, Follow: follow})
	if err != nil {
		return err
	}
	defer stream.Close()
	from, to := io.Pipe()
	var copying sync.WaitGroup
	copying.Go(func() {
		_, err := stdcopy.StdCopy(to, io.Discard, stream)
		to.CloseWithError(err)
	})
	defer copying.Wait()
	defer from.Close()
	lines := history.Lines(from)
	for n := 0; lines.Scan(); n++ {
		if n < r.seen {
			continue
		}
		r.output.Line(lines.Bytes())
		r.seen = n + 1
	}
	return lines.Err()
}
