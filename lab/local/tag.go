package local

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

const (
	tagName   = "LAB_TAG"
	sweepTime = 10 * time.Second
)

// tag marks guards, workers and all their descendants with an environment variable, so that they
// can be found when their parents are gone, such as a command whose leader was killed. It finds
// them through /proc, which exists on Linux.
type tag struct {
	value    string
	watchdog *exec.Cmd
	stdin    io.WriteCloser // of the watchdog
}

// watchdog kills all tagged processes if its input ends without a line: then the lab has died.
const watchdog = `read line || for f in $(grep -lFsz "$1" /proc/[0-9]*/environ); do ` +
	`p=${f#/proc/}; kill -KILL "${p%/environ}"; done`

// newTag makes a tag and starts its watchdog, which release ends.
func newTag() (*tag, error) {
	t := &tag{value: tagName + "=" + rand.Text()}
	t.watchdog = exec.Command("/bin/sh", "-c", watchdog, "watchdog", t.value)
	t.watchdog.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C must not reach it
	var err error
	if t.stdin, err = t.watchdog.StdinPipe(); err != nil {
		return nil, err
	}
	if err := t.watchdog.Start(); err != nil {
		return nil, err
	}
	return t, nil
}

func (t *tag) release() {
	_, _ = io.WriteString(t.stdin, "\n")
	_ = t.stdin.Close()
	_ = t.watchdog.Wait()
}

// sweep kills every tagged process, also paused ones, and waits until none is left.
func (t *tag) sweep() error {
	deadline := time.Now().Add(sweepTime)
	for {
		left := t.processes()
		if len(left) == 0 {
			return nil
		}
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes %v were killed and have not ended within %v", left,
				sweepTime)
		}
		// nothing reports the end of a process that is not our child
		time.Sleep(5 * time.Millisecond)
	}
}

// processes returns the processes with the tag. A process that has ended has no environment.
func (t *tag) processes() []int {
	names, _ := filepath.Glob("/proc/[0-9]*/environ")
	var all []int
	for _, name := range names {
		environ, err := os.ReadFile(name)
		if err != nil {
			continue // gone, or another user's
		}
		for variable := range bytes.SplitSeq(environ, []byte{0}) {
			if string(variable) == t.value {
				pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
				all = append(all, pid)
			}
		}
	}
	return all
}
