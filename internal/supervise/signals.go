package supervise

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

// Forwarded are the signals that the command gets when leader does.
var Forwarded = []os.Signal{
	syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH,
}

// endings are those that end a leader which has no command running.
var endings = []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT}

// Notify asks for the forwarded signals. One that was ignored when leader was started, as under nohup, stays so, for
// leader and for the command.
func Notify() (<-chan os.Signal, func()) {
	wanted := slices.DeleteFunc(slices.Clone(Forwarded), signal.Ignored)
	c := make(chan os.Signal, 32)
	signal.Notify(c, wanted...)
	return c, func() { signal.Stop(c); close(c) }
}

// Signalled is the cause of a context that a signal has ended.
type Signalled struct{ Signal syscall.Signal }

func (s Signalled) Error() string { return "got " + unix.SignalName(s.Signal) }

// Code is what a shell reports for a process that the signal has ended.
func (s Signalled) Code() int { return 128 + int(s.Signal) }

// Signals hands each signal to whoever it concerns at the time: at first it ends the context, later the supervisor
// takes over.
type Signals struct {
	mu sync.Mutex
	to func(os.Signal)
}

// Listen returns ctx ending with a Signalled cause, until the signals are routed elsewhere. It takes them from notify,
// such as Notify. Call stop at last.
func Listen(parent context.Context, notify func() (<-chan os.Signal, func())) (ctx context.Context, s *Signals, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	s = &Signals{to: func(sig os.Signal) {
		if number, ok := sig.(syscall.Signal); ok && slices.Contains(endings, sig) {
			cancel(Signalled{number})
		}
	}}
	incoming, unhook := notify()
	var done sync.WaitGroup
	done.Go(func() { s.dispatch(incoming) })
	return ctx, s, func() { unhook(); done.Wait(); cancel(nil) }
}

func (s *Signals) dispatch(incoming <-chan os.Signal) {
	for sig := range incoming {
		s.mu.Lock()
		s.to(sig)
		s.mu.Unlock()
	}
}

// Divert sends the signals to a channel from now on, until restore is called. What the channel has no room for is
// dropped: signals of one kind that follow each other quickly are one to the kernel, too.
func (s *Signals) Divert() (diverted <-chan os.Signal, restore func()) {
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
