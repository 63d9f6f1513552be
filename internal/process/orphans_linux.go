package process

import (
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// adopting is set while this program is the parent of orphans.
var adopting atomic.Bool

// AdoptOrphans makes this program the new parent of what its commands leave behind
// (PR_SET_CHILD_SUBREAPER of prctl(2)), and reaps it. Call it once, at the beginning of the
// program: every child has to be started with Start from then on. Call stop at the end.
func AdoptOrphans() (stop func()) {
	if unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != nil && os.Getpid() != 1 {
		return func() {}
	}
	adopting.Store(true)
	deaths := make(chan os.Signal, 1)
	signal.Notify(deaths, syscall.SIGCHLD)
	var done sync.WaitGroup
	done.Go(func() {
		for range deaths {
			reap()
		}
	})
	return func() { signal.Stop(deaths); close(deaths); done.Wait() }
}

// reap waits for each dead orphan by its process id. To wait for any child could take a command's
// exit code from the code that waits for the command.
func reap() {
	own.Lock()
	defer own.Unlock()
	for _, p := range list() {
		if p.Parent == os.Getpid() && p.Dead() && !own.pids[p.Pid] {
			_, _ = syscall.Wait4(p.Pid, nil, syscall.WNOHANG, nil)
		}
	}
}

// NoOrphans reports whether surely nothing hangs under this program but what it has started itself.
// It costs less than List.
func NoOrphans() bool {
	if !adopting.Load() {
		return true
	}
	own.Lock()
	defer own.Unlock()
	lists, _ := filepath.Glob("/proc/self/task/*/children") // of each thread
	for _, name := range lists {
		pids, err := os.ReadFile(name)
		if err != nil {
			return false
		}
		for pid := range strings.FieldsSeq(string(pids)) {
			if n, err := strconv.Atoi(pid); err != nil || !own.pids[n] {
				return false
			}
		}
	}
	return len(lists) > 0 // a kernel may have no such lists
}

// mark marks the children of this program, and the orphans with all that hangs under them. What
// hangs under a child is neither.
func mark(all []Process) {
	if !adopting.Load() {
		return
	}
	under := map[int][]int{} // parent: where its children are in the list
	for i, p := range all {
		under[p.Parent] = append(under[p.Parent], i)
	}
	var markUnder func(parent int)
	markUnder = func(parent int) {
		hanging := under[parent]
		delete(under, parent) // a list that is read while processes come and go may have circles
		for _, i := range hanging {
			p := &all[i]
			p.Child = parent == os.Getpid() && own.pids[p.Pid]
			if p.Orphan = !p.Child; p.Orphan {
				markUnder(p.Pid)
			}
		}
	}
	markUnder(os.Getpid())
}
