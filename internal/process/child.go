package process

import (
	"os/exec"
	"sync"
)

// own are the children of this program for which somebody waits. The kernel does not tell them from
// orphans, and who reaps such a child would take its exit code from the one who waits.
var own = struct {
	sync.Mutex
	pids map[int]bool
}{pids: map[int]bool{}}

// Start starts a command. Wait for it with Wait, or call Reaped after another way to wait.
func Start(cmd *exec.Cmd) error {
	own.Lock() // so that nobody looks before the process id is known
	defer own.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	own.pids[cmd.Process.Pid] = true
	return nil
}

// Wait waits for a command that Start has started.
func Wait(cmd *exec.Cmd) error {
	defer reaped(cmd.Process.Pid)
	return cmd.Wait()
}

// reaped says that a child has been waited for. From now on an orphan may get its process id.
func reaped(pid int) {
	own.Lock()
	defer own.Unlock()
	delete(own.pids, pid)
}
