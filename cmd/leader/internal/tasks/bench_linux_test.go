package tasks

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/checkpointtest"
	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/fence/fencetest"
	"github.com/ringfence/ringfence/internal/test/must"
)

// bench is a task file, and one coordinator and one journal in memory for all leaders of a test.
type bench struct {
	t    *testing.T
	file string
	setup
}

// newBench writes a task file for the task t of the resource orders; steps is the rest of the YAML.
func newBench(t *testing.T, steps string) *bench {
	t.Helper()
	t.Parallel()
	b := &bench{
		t: t, file: filepath.Join(t.TempDir(), "t.yaml"), setup: setup{
			memory: fencetest.NewMemory(longSession), journal: checkpointtest.NewMemory(),
		},
	}
	b.env = []string{"LEADER_SESSION_TIMEOUT=30s", "LEADER_GRACE=300ms"}
	b.steps(steps)
	return b
}

func (b *bench) steps(steps string) {
	b.t.Helper()
	must.Succeed(b.t, os.WriteFile(b.file, []byte("task: t\nresource: orders\n"+steps), 0o644))
}

// run starts a copy.
func (b *bench) run() *taskCopy { b.t.Helper(); return begin(b.t, b.setup, "task", b.file) }

// saved returns the checkpoint.
func (b *bench) saved() (cp checkpoint.Checkpoint) {
	b.t.Helper()
	found, err := b.journal.Load(b.t.Context(), "t")
	must.Succeed(b.t, err)
	if len(found) > 0 {
		cp = found[0]
	}
	return cp
}

// shown returns the checkpoint that leader task show prints.
func (b *bench) shown() (cp checkpoint.Checkpoint) {
	b.t.Helper()
	l := b.say(cli.Done, "task", "show", b.file, "-o", "json")
	if err := json.Unmarshal([]byte(l.out.String()), &cp); err != nil {
		b.t.Fatalf("%v in %s", err, l.out)
	}
	return cp
}

// say runs a subcommand to its end.
func (b *bench) say(want int, args ...string) *taskCopy {
	b.t.Helper()
	l := begin(b.t, b.setup, args...)
	l.exits(want)
	return l
}

// touch creates a file next to the task file.
func (b *bench) touch(name string) {
	b.t.Helper()
	must.Succeed(b.t, os.WriteFile(filepath.Join(filepath.Dir(b.file), name), nil, 0o644))
}

// inDir returns the text of a file next to the task file.
func (b *bench) inDir(name string) string {
	text, _ := os.ReadFile(filepath.Join(filepath.Dir(b.file), name))
	return string(text)
}
