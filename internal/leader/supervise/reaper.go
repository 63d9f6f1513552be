package supervise

import (
	"os/exec"
	"sync"
)

// Reaper reaps orphans when leader is the first process of a container: there, processes whose
// parents have died become children of leader, and would stay zombies as long as it runs. A nil
// Reaper leaves that to init.
type Reaper struct {
	mu  sync.Mutex
	own map[int]bool // children that other code waits for
}

// start starts a command that the reaper must not reap. The lock keeps the reaper from looking
// before it knows the process id.
func (r *Reaper) start(cmd *exec.Cmd) error {
	if r == nil {
		return cmd.Start()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	r.own[cmd.Process.Pid] = true
	return nil
}

// finished says that a command was reaped; from now on an orphan may get its process id.
func (r *Reaper) finished(pid int) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.own, pid)
}
