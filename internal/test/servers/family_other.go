//go:build !linux

package servers

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// dieWithParent does nothing: only Linux has a parent death signal.
func dieWithParent(*syscall.SysProcAttr) {}

// member is one process.
type member struct {
	pid, parent int
	state       string
}

// processes lists every process that is not a zombie, as ps shows them.
func processes() []member {
	out, _ := exec.Command("ps", "-axo", "pid=,ppid=,state=").Output()
	var all []member
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) < 3 || strings.HasPrefix(f[2], "Z") {
			continue
		}
		pid, _ := strconv.Atoi(f[0])
		parent, _ := strconv.Atoi(f[1])
		all = append(all, member{pid: pid, parent: parent, state: f[2]})
	}
	return all
}

func (m member) exists() bool {
	for _, o := range processes() {
		if o.pid == m.pid {
			return true
		}
	}
	return false
}

func (m member) stopped() bool { return strings.HasPrefix(m.state, "T") }
