package supervise

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// limited returns the folder of a memory control group with 30 MB (cgroup v1 or v2).
func limited(t *testing.T) (tasks string) {
	t.Helper()
	for root, files := range map[string][2]string{
		"/sys/fs/cgroup/memory": {"memory.limit_in_bytes", "tasks"},
		"/sys/fs/cgroup":        {"memory.max", "cgroup.procs"},
	} {
		if _, err := os.Stat(filepath.Join(root, files[1])); err != nil {
			continue // no control group: a folder here would limit nothing
		}
		group := filepath.Join(root, fmt.Sprintf("ringfence-test-%d", os.Getpid()))
		if os.Mkdir(group, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { _ = os.Remove(group) })
		limit, err := os.OpenFile(filepath.Join(group, files[0]), os.O_WRONLY, 0)
		if err != nil {
			continue
		}
		_, err = limit.WriteString("30000000")
		if errors.Join(err, limit.Close()) == nil {
			return filepath.Join(group, files[1])
		}
	}
	t.Skip("a memory control group cannot be made here (it takes root)")
	return ""
}

func TestAFailureForWantOfMemorySaysSo(t *testing.T) {
	tasks := limited(t)
	for script, want := range map[string]bool{
		// Without the control group the limit of the shell keeps the machine's memory.
		"ulimit -v 300000; echo $$ > " + tasks + " && exec tail /dev/zero": true,
		"kill -KILL $$": false,
	} {
		c := &Child{}
		argv := []string{"/bin/sh", "-c", script}
		if err := c.Start(argv, os.Environ(), nil, io.Discard, io.Discard); err != nil {
			t.Fatal(err)
		}
		<-c.ended
		if err := c.Failure("the end"); strings.Contains(err.Error(), "memory") != want ||
			!strings.HasSuffix(err.Error(), ": the end") {
			t.Errorf("%s: %v", script, err)
		}
	}
}
