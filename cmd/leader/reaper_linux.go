package main

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// startReaper returns a reaper where one is needed. Call stop at last.
func startReaper() (r *reaper, stop func()) {
	if os.Getpid() != 1 {
		return nil, func() {}
	}
	r = &reaper{own: map[int]bool{}}
	deaths := make(chan os.Signal, 1)
	signal.Notify(deaths, syscall.SIGCHLD)
	var done sync.WaitGroup
	done.Go(func() { r.run(deaths) })
	return r, func() { signal.Stop(deaths); close(deaths); done.Wait() }
}

func (r *reaper) run(deaths <-chan os.Signal) {
	for range deaths {
		r.reap()
	}
}

// reap waits for each dead orphan by its number: waiting for any child would take the command's exit code away from
// whoever waits for that.
func (r *reaper) reap() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range processes() {
		if p.parent == os.Getpid() && p.dead() && !r.own[p.pid] {
			_, _ = syscall.Wait4(p.pid, nil, syscall.WNOHANG, nil)
		}
	}
}
