package supervise

import (
	"bufio"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/ringfence/ringfence/internal/process"
)

// cgroupPrefix begins the names of control groups of commands.
const cgroupPrefix = "ringfence-"

// cgroup is a control group of a command's own (cgroups(7), version 2), below leader's. Whatever
// the command starts is in it, of any user and session, and one write ends all of it. A nil cgroup
// holds nothing: leader may not make one, as in most containers.
type cgroup struct {
	path string
	dir  *os.File
}

func newCgroup() *cgroup {
	parent, ok := ownCgroup()
	if !ok {
		return nil
	}
	path, err := os.MkdirTemp(parent, cgroupPrefix)
	if err != nil {
		return nil
	}
	dir, err := os.Open(path)
	if _, err2 := os.Stat(filepath.Join(path, "cgroup.kill")); err != nil || err2 != nil {
		// before Linux 5.14
		_ = dir.Close()
		_ = os.Remove(path)
		return nil
	}
	return &cgroup{path, dir}
}

// ownCgroup returns the folder of leader's own control group.
func ownCgroup() (folder string, ok bool) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", false
	}
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", false
	}
	defer mounts.Close()
	for lines := bufio.NewScanner(mounts); lines.Scan(); {
		mount, kind, _ := strings.Cut(lines.Text(), " - ")
		if f := strings.Fields(mount); strings.HasPrefix(kind, "cgroup2 ") && len(f) > 4 {
			below, err := filepath.Rel(f[3], pathIn(string(own)))
			return filepath.Join(f[4], below), err == nil && filepath.IsLocal(below)
		}
	}
	return "", false
}

// pathIn returns the path of the version 2 group in /proc/<pid>/cgroup.
func pathIn(groups string) string {
	for line := range strings.Lines(groups) {
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			return strings.TrimSuffix(path, "\n")
		}
	}
	return ""
}

// lend has the command begin in the group.
func (g *cgroup) lend(a *syscall.SysProcAttr) {
	if g != nil {
		a.UseCgroupFD, a.CgroupFD = true, int(g.dir.Fd())
	}
}

// kill ends all that is in the group, whose user does not matter.
func (g *cgroup) kill() {
	if g != nil {
		_ = os.WriteFile(filepath.Join(g.path, "cgroup.kill"), []byte("1"), 0)
	}
}

// pids returns what is in the group, and in groups that the command has made below it.
func (g *cgroup) pids() map[int]bool {
	all := map[int]bool{}
	if g == nil {
		return all
	}
	_ = filepath.WalkDir(g.path, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil
		}
		procs, _ := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		for pid := range strings.FieldsSeq(string(procs)) {
			if n, err := strconv.Atoi(pid); err == nil {
				all[n] = true
			}
		}
		return nil
	})
	return all
}

// inAnother reports whether a process is in the group of another command.
func (g *cgroup) inAnother(p process.Process) bool {
	if g == nil {
		return false
	}
	groups, _ := os.ReadFile("/proc/" + strconv.Itoa(p.Pid) + "/cgroup")
	path := pathIn(string(groups))
	return strings.Contains(path, "/"+cgroupPrefix) &&
		!strings.Contains(path+"/", "/"+filepath.Base(g.path)+"/")
}

// close removes the group, if nothing is left in it.
func (g *cgroup) close() {
	if g != nil {
		_ = g.dir.Close()
		_ = os.Remove(g.path)
	}
}
