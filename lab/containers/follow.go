package containers

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/client"

	"github.com/ringfence/ringfence/lab"
	"github.com/ringfence/ringfence/lab/history"
)

// longestLine bounds one event, in bytes. The engine stores long lines in pieces, and puts them together again.
const longestLine = 1 << 20

// followers read what workers say from the engine's log of their output, and hand it on: each line once, over restarts and
// when the stream breaks off.
type followers struct {
	docker *client.Client
	events func(history.Event)
	ctx    context.Context
	stop   context.CancelFunc
	all    sync.WaitGroup

	mu  sync.Mutex
	run map[string]*following
}

// following is the reading of one container's log. A container keeps it over restarts.
type following struct {
	worker, id string
	seen       int           // lines that were handed on
	expected   bool          // the lab is ending the present run
	done       chan struct{} // closed when all that the present run has said was handed on
}

func newFollowers(docker *client.Client, events func(history.Event)) *followers {
	ctx, stop := context.WithCancel(context.Background())
	if events == nil {
		events = func(history.Event) {}
	}
	return &followers{docker: docker, events: events, ctx: ctx, stop: stop, run: map[string]*following{}}
}

// follow reads from now on, until the container ends. What was read of an earlier run of the same container is left out.
func (f *followers) follow(worker, id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := &following{worker: worker, id: id, done: make(chan struct{})}
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

// wait returns when everything that a worker has said until its end was handed on. Other processes are not followed.
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

// close ends all reading and waits for it.
func (f *followers) close() {
	f.stop()
	f.all.Wait()
}

// read follows the log until the container has ended, and then looks once more at the whole: an engine may end a stream
// before its last lines.
func (f *followers) read(r *following) {
	var err error
	for {
		if err = f.stream(r, true); f.ctx.Err() != nil {
			return
		}
		now, asked := f.docker.ContainerInspect(f.ctx, r.id, client.ContainerInspectOptions{})
		if asked != nil || err != nil {
			err = errors.Join(err, asked)
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
			f.note(r, fmt.Sprintf("%sexit code %d", lab.Ended, now.Container.State.ExitCode))
		}
		break
	}
	if err != nil && f.ctx.Err() == nil {
		f.note(r, "what it says can no longer be read: "+err.Error())
	}
}

// stream hands on the lines that are new.
func (f *followers) stream(r *following, follow bool) error {
	stream, err := f.docker.ContainerLogs(f.ctx, r.id, client.ContainerLogsOptions{ShowStdout: true, Follow: follow})
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
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, longestLine)
	for n := 0; lines.Scan(); n++ {
		if n < r.seen {
			continue
		}
		f.hand(r, lines.Bytes())
		r.seen = n + 1
	}
	return lines.Err()
}

// hand hands an event on. What is none is a note: it may explain why a run went wrong.
func (f *followers) hand(r *following, line []byte) {
	var e history.Event
	if err := json.Unmarshal(line, &e); err != nil || e.Kind == "" {
		f.note(r, "said what is no event: "+string(line))
		return
	}
	f.events(e)
}

func (f *followers) note(r *following, text string) {
	f.events(history.Event{At: history.Now(), Kind: history.Note, Process: r.worker, Text: text})
}
