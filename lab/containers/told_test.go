package containers

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/lab"
	"github.com/ringfence/ringfence/lab/history"
)

// told keeps what workers say, for a test to wait for.
type told struct {
	mu      sync.Mutex
	events  []history.Event
	changed chan struct{}
}

func newTold() *told { return &told{changed: make(chan struct{})} }

func (t *told) add(e history.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events = append(t.events, e)
	close(t.changed)
	t.changed = make(chan struct{})
}

// now is how many events there were so far.
func (t *told) now() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.events)
}

func (t *told) all() []history.Event {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.events[:len(t.events):len(t.events)]
}

// waitFor returns the first event from number from on that will do.
func (t *told) waitFor(test *testing.T, from int, what string, will func(history.Event) bool) history.Event {
	test.Helper()
	ctx, cancel := context.WithTimeout(test.Context(), 40*time.Second)
	defer cancel()
	for {
		t.mu.Lock()
		events, changed := t.events, t.changed
		t.mu.Unlock()
		for ; from < len(events); from++ {
			if will(events[from]) {
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

func by(worker string, will func(history.Event) bool) func(history.Event) bool {
	return func(e history.Event) bool {
		name, _, _ := strings.Cut(e.Process, "/")
		return name == worker && will(e)
	}
}

func notBy(worker string, will func(history.Event) bool) func(history.Event) bool {
	return func(e history.Event) bool {
		name, _, _ := strings.Cut(e.Process, "/")
		return name != worker && will(e)
	}
}

// leader waits for the next acknowledged write and returns who wrote.
func (t *told) leader(test *testing.T) string {
	test.Helper()
	name, _, _ := strings.Cut(t.waitFor(test, t.now(), "an acknowledged write", acknowledged).Process, "/")
	return name
}

// once fails when a line was handed on twice, or a return has no invocation.
func (t *told) once(test *testing.T) {
	test.Helper()
	seen := map[string]bool{}
	for _, e := range t.all() {
		if e.Kind != history.Invoke && e.Kind != history.Return {
			continue
		}
		key := fmt.Sprint(e.Kind, " ", e.Op)
		if seen[key] {
			test.Errorf("handed on twice: %+v", e)
		}
		seen[key] = true
		if e.Kind == history.Return && !seen["invoke "+e.Op] {
			test.Errorf("a return without an invocation: %+v", e)
		}
	}
}

// build makes a system that is removed when the test ends.
func build(t *testing.T, b lab.Build) *System {
	t.Helper()
	if os.Getenv("RINGFENCE_CONTAINERS") == "" {
		t.Skip("containers are tried by make chaos-compose, which sets RINGFENCE_CONTAINERS: the images take minutes")
	}
	if err := Available(t.Context()); err != nil {
		t.Skipf("no containers here: %v", err)
	}
	b.Dir = t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // images may have to be made
	defer cancel()
	s, err := Build(ctx, b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.Diagnose())
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
