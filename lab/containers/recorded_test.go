package containers

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/system"
)

// recorded keeps the events of workers, for a test to wait for.
type recorded struct {
	mu      sync.Mutex
	events  []history.Event
	changed chan struct{}
}

func newRecorded() *recorded { return &recorded{changed: make(chan struct{})} }

func (t *recorded) add(e history.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events = append(t.events, e)
	close(t.changed)
	t.changed = make(chan struct{})
}

// now returns how many events there are so far.
func (t *recorded) now() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.events)
}

func (t *recorded) all() []history.Event {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.events[:len(t.events):len(t.events)]
}

// waitFor returns the first suitable event from number from on.
func (t *recorded) waitFor(
	test *testing.T, from int, what string, suits func(history.Event) bool,
) history.Event {
	test.Helper()
	ctx, cancel := context.WithTimeout(test.Context(), 40*time.Second)
	defer cancel()
	for {
		t.mu.Lock()
		events, changed := t.events, t.changed
		t.mu.Unlock()
		for ; from < len(events); from++ {
			if suits(events[from]) {
				return events[from]
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			test.Fatalf("%s: not within 40 s", what)
		}
	}
}

func acknowledged(e history.Event) bool {
	return e.Kind == history.Return && e.Do == history.Write && e.Outcome == history.OK
}

func term(s history.State) func(history.Event) bool {
	return func(e history.Event) bool { return e.Kind == history.Term && e.State == s }
}

func by(worker string, suits func(history.Event) bool) func(history.Event) bool {
	return func(e history.Event) bool { return history.Worker(e.Process) == worker && suits(e) }
}

func notBy(worker string, suits func(history.Event) bool) func(history.Event) bool {
	return func(e history.Event) bool { return history.Worker(e.Process) != worker && suits(e) }
}

// leader waits for the next acknowledged write and returns its worker.
func (t *recorded) leader(test *testing.T) string {
	test.Helper()
	e := t.waitFor(test, t.now(), "an acknowledged write", acknowledged)
	return history.Worker(e.Process)
}

// once fails if a line was reported twice, or a return has no invocation.
func (t *recorded) once(test *testing.T) {
	test.Helper()
	seen := map[string]bool{}
	for _, e := range t.all() {
		if e.Kind != history.Invoke && e.Kind != history.Return {
			continue
		}
		key := fmt.Sprint(e.Kind, " ", e.Op)
		if seen[key] {
			test.Errorf("reported twice: %+v", e)
		}
		seen[key] = true
		if e.Kind == history.Return && !seen["invoke "+e.Op] {
			test.Errorf("a return without an invocation: %+v", e)
		}
	}
}

// build builds a system that is removed when the test ends.
func build(t *testing.T, b system.Build) *System {
	t.Helper()
	if os.Getenv("RINGFENCE_CONTAINERS") == "" {
		t.Skip("set RINGFENCE_CONTAINERS, as make chaos-compose does: the images take minutes")
	}
	if err := Available(t.Context()); err != nil {
		t.Skipf("no containers here: %v", err)
	}
	b.Dir = t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute) // for the images
	defer cancel()
	s, err := Build(ctx, b)
	must.Succeed(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.Diagnose())
		}
		must.Report(t, s.Close())
	})
	return s
}
