package carrier

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/ringfence/ringfence/internal/network/peeruser"
	"github.com/ringfence/ringfence/internal/process"
)

const tellsProcess = true

// owns reports whether a process is the command's, by itself or by one of its ancestors.
func (c *Command) owns(pid int) bool {
	for pid > 1 && pid != os.Getpid() {
		p, found := process.Find(pid)
		switch {
		case !found:
			return false
		case c.pid != 0 && (p.Pid == c.pid || p.Group == c.pid), process.MarkOf(pid) == c.mark:
			return true
		}
		pid = p.Parent
	}
	return false
}

// holds reports whether a process of the command has the socket open.
func (c *Command) holds(p peeruser.Peer) bool {
	for _, pid := range c.recent {
		if has, _ := opened(pid, p.Inode); has && c.owns(pid) {
			return true
		}
	}
	c.recent = slices.DeleteFunc(c.recent, func(pid int) bool {
		_, there := process.Find(pid)
		return !there
	})
	hidden := false // a process of the command and of the peer's user does not show us its files
	for _, q := range process.List() {
		has, err := opened(q.Pid, p.Inode)
		switch {
		case has && c.owns(q.Pid):
			c.recent = append(c.recent, q.Pid)
			return true
		case errors.Is(err, fs.ErrPermission) && !hidden:
			hidden = runsAs(q.Pid, p.User) && c.owns(q.Pid)
		}
	}
	return hidden
}

// opened reports whether a process has a socket open.
func opened(pid int, inode string) (bool, error) {
	dir := proc(pid, "fd")
	files, err := os.ReadDir(dir)
	for _, f := range files {
		if to, err := os.Readlink(filepath.Join(dir, f.Name())); err == nil && to == "socket:["+inode+
			"]" {
			return true, nil
		}
	}
	return false, err
}

// runsAs reports whether a user is one of those that a process has: real, effective, saved, of the
// file system.
func runsAs(pid, user int) bool {
	status, _ := os.ReadFile(proc(pid, "status"))
	_, after, _ := strings.Cut(string(status), "\nUid:")
	line, _, _ := strings.Cut(after, "\n")
	return slices.Contains(strings.Fields(line), strconv.Itoa(user))
}

func proc(pid int, file string) string { return filepath.Join("/proc", strconv.Itoa(pid), file) }
