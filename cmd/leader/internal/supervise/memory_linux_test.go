package supervise

import (
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
		group := filepath.Join(root, "ringfence-test")
		if os.Mkdir(group, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { _ = os.Remove(group) })
		if os.WriteFile(filepath.Join(group, files[0]), []byte("30000000"), 0) == nil {
			return filepath.Join(group, files[1])
		}
	}
	t.Skip("a memory control group cannot be made here (it takes root)")
	return ""
}

func TestAFailureForWantOfMemorySaysSo(t *testing.T) {
	tasks := limited(t)
	for script, want := range map[string]bool{
		"echo $$ > " + tasks + "; exec tail /dev/zero": true,
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
