package supervise

import (
	"os/exec"
	"sync"
)

// Reaper buries what nobody else does when leader is the first process of a container: there, processes whose parents
// have died become leader's own, and would stay zombies for as long as it runs. A nil reaper leaves that to init.
type Reaper struct {
	mu  sync.Mutex
	own map[int]bool // children that are waited for elsewhere
}

// start starts a command that the reaper must not take: it cannot look before it knows the number.
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

// finished says that a command was waited for: its number may be an orphan's next.
func (r *Reaper) finished(pid int) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.own, pid)
}
