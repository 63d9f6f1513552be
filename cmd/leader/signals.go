package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// forwarded are the signals that the command gets when leader does.
var forwarded = []os.Signal{
	syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH,
}

// endings are those that end a leader which has no command running.
var endings = []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT}

// notify asks for the forwarded signals. One that was ignored when leader was started, as under nohup, stays so, for
// leader and for the command.
func notify() (<-chan os.Signal, func()) {
	wanted := slices.DeleteFunc(slices.Clone(forwarded), signal.Ignored)
	c := make(chan os.Signal, 32)
	signal.Notify(c, wanted...)
	return c, func() { signal.Stop(c); close(c) }
}

// signalled is the cause of a context that a signal has ended.
type signalled struct{ signal syscall.Signal }

func (s signalled) Error() string { return "got " + unix.SignalName(s.signal) }

// code is what a shell reports for a process that the signal has ended.
func (s signalled) code() int { return 128 + int(s.signal) }

// signals hands each signal to whoever it concerns at the time: at first it ends the context, later the supervisor
// takes over.
type signals struct {
	mu sync.Mutex
	to func(os.Signal)
}

// listen returns ctx ending with a signalled cause, until the signals are routed elsewhere. Call stop at last.
func (p *program) listen(parent context.Context) (ctx context.Context, s *signals, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	s = &signals{to: func(sig os.Signal) {
		if number, ok := sig.(syscall.Signal); ok && slices.Contains(endings, sig) {
			cancel(signalled{number})
		}
	}}
	incoming, unhook := p.notify()
	var done sync.WaitGroup
	done.Go(func() { s.dispatch(incoming) })
	return ctx, s, func() { unhook(); done.Wait(); cancel(nil) }
}

func (s *signals) dispatch(incoming <-chan os.Signal) {
	for sig := range incoming {
		s.mu.Lock()
		s.to(sig)
		s.mu.Unlock()
	}
}

// divert sends the signals to a channel from now on, until restore is called. What the channel has no room for is
// dropped: signals of one kind that follow each other quickly are one to the kernel, too.
func (s *signals) divert() (diverted <-chan os.Signal, restore func()) {
	c := make(chan os.Signal, 32)
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.to
	s.to = func(sig os.Signal) {
		select {
		case c <- sig:
		default:
		}
	}
	return c, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.to = before
	}
}

func number(sig os.Signal) syscall.Signal {
	n, ok := sig.(syscall.Signal)
	if !ok {
		panic(fmt.Sprintf("leader: %v is not a signal of this system", sig))
	}
	return n
}
