package servers

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// dieWithParent makes the kernel kill the child when the thread that started it ends, so that a
// killed test leaves no server behind.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }

// member is one process. start distinguishes it from a later one with the same id.
type member struct {
	pid, parent int
	start       string
}

// processes lists every process that is not a zombie.
func processes() []member {
	names, _ := filepath.Glob("/proc/[0-9]*/stat")
	var all []member
	for _, name := range names {
		if s, ok := readStat(name); ok {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			all = append(all, member{pid: pid, parent: s.parent, start: s.start})
		}
	}
	return all
}

func (m member) exists() bool {
	s, ok := readStat(fmt.Sprintf("/proc/%d/stat", m.pid))
	return ok && s.start == m.start
}

// stopped reports whether every thread of the process is stopped or gone.
func (m member) stopped() bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/[0-9]*/stat", m.pid))
	for _, name := range threads {
		if s, ok := readStat(name); ok && s.state != "T" && s.state != "t" {
			return false
		}
	}
	return true
}

type stat struct {
	state  string
	parent int
	start  string
}

// readStat reads a stat file of proc(5). ok is false for a process that is gone, or that is dead
// and only waits to be reaped, for which its parent may be slow or absent.
func readStat(name string) (s stat, ok bool) {
	b, err := os.ReadFile(name)
	if err != nil {
		return stat{}, false
	}
	// The second field is the program's name in brackets, which may contain any character.
	_, rest, found := cutLast(string(b), ")")
	f := strings.Fields(rest)
	if !found || len(f) < 20 || f[0] == "Z" || f[0] == "X" {
		return stat{}, false
	}
	parent, _ := strconv.Atoi(f[1])
	return stat{state: f[0], parent: parent, start: f[19]}, true
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
