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
	brandName = "LAB_BRAND"
	sweepTime = 10 * time.Second
)

// brand marks guards, workers and whatever they start by a variable of their environment, so that they can be found when
// their parents are gone: a command that was started by a leader who was killed, and its children. It finds them where
// /proc shows environments, which is on Linux.
type brand struct {
	value string
	dog   *exec.Cmd
	leash io.WriteCloser // a line means: go home; end of file: the lab is dead
}

// watchdog kills all that is branded when the lab dies.
const watchdog = `read line || for f in $(grep -lFsz "$1" /proc/[0-9]*/environ); do p=${f#/proc/}; kill -KILL "${p%/environ}"; done`

// newBrand makes a brand and starts its watchdog; release ends that.
func newBrand() (*brand, error) {
	b := &brand{value: brandName + "=" + rand.Text()}
	b.dog = exec.Command("/bin/sh", "-c", watchdog, "watchdog", b.value)
	b.dog.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C is not for it
	var err error
	if b.leash, err = b.dog.StdinPipe(); err != nil {
		return nil, err
	}
	if err := b.dog.Start(); err != nil {
		return nil, err
	}
	return b, nil
}

func (b *brand) release() {
	_, _ = io.WriteString(b.leash, "\n")
	_ = b.leash.Close()
	_ = b.dog.Wait()
}

// sweep kills every process that has the brand, paused or not, and waits until none is left.
func (b *brand) sweep() error {
	deadline := time.Now().Add(sweepTime)
	for {
		left := b.branded()
		if len(left) == 0 {
			return nil
		}
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes %v were killed and have not ended within %v", left, sweepTime)
		}
		time.Sleep(5 * time.Millisecond) // between two looks: nobody tells of the end of what is not our child
	}
}

// branded are the processes that have the brand. A process that has ended has no environment.
func (b *brand) branded() []int {
	names, _ := filepath.Glob("/proc/[0-9]*/environ")
	var all []int
	for _, name := range names {
		environ, err := os.ReadFile(name)
		if err != nil {
			continue // gone, or another user's
		}
		for variable := range bytes.SplitSeq(environ, []byte{0}) {
			if string(variable) == b.value {
				pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
				all = append(all, pid)
			}
		}
	}
	return all
}
