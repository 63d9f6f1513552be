package supervise

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// StartReaper returns a reaper if leader is process 1, else nil. Call stop at the end.
func StartReaper() (r *Reaper, stop func()) {
	if os.Getpid() != 1 {
		return nil, func() {}
	}
	r = &Reaper{own: map[int]bool{}}
	deaths := make(chan os.Signal, 1)
	signal.Notify(deaths, syscall.SIGCHLD)
	var done sync.WaitGroup
	done.Go(func() { r.run(deaths) })
	return r, func() { signal.Stop(deaths); close(deaths); done.Wait() }
}

func (r *Reaper) run(deaths <-chan os.Signal) {
	for range deaths {
		r.reap()
	}
}

// reap waits for each dead orphan by its process id. To wait for any child could take the command's
// exit code from the code that waits for the command.
func (r *Reaper) reap() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range Processes() {
		if p.Parent == os.Getpid() && p.Dead() && !r.own[p.Pid] {
			_, _ = syscall.Wait4(p.Pid, nil, syscall.WNOHANG, nil)
		}
	}
}
