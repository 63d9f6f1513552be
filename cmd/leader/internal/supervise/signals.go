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

// Forwarded are the signals that leader forwards to the command.
var Forwarded = []os.Signal{
	syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH,
}

// terminating are the signals that end a leader while no command is running.
var terminating = []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT}

// Notify subscribes to the forwarded signals. A signal that was ignored when leader was started, as
// under nohup, stays ignored, for leader and for the command.
func Notify() (<-chan os.Signal, func()) {
	wanted := slices.DeleteFunc(slices.Clone(Forwarded), signal.Ignored)
	c := make(chan os.Signal, 32)
	signal.Notify(c, wanted...)
	return c, func() { signal.Stop(c); close(c) }
}

// Signalled is the cause of a context that was ended by a signal.
type Signalled struct{ Signal syscall.Signal }

func (s Signalled) Error() string { return "got " + unix.SignalName(s.Signal) }

// Code is the exit code that a shell reports for a process that was ended by the signal.
func (s Signalled) Code() int { return 128 + int(s.Signal) }

// Signals routes signals: at first they end the context, later they go to the supervisor.
type Signals struct {
	mu    sync.Mutex
	to    func(os.Signal)
	again chan struct{}
}

// Again returns a channel that is closed by a signal that comes after one has ended the context.
func (s *Signals) Again() <-chan struct{} { return s.again }

// Listen returns a context that a signal ends, with a Signalled cause, unless the signals are
// diverted. It takes the signals from notify, such as Notify. Call stop at the end.
func Listen(
	parent context.Context, notify func() (<-chan os.Signal, func()),
) (ctx context.Context, s *Signals, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	again := make(chan struct{})
	hurry := sync.OnceFunc(func() { close(again) })
	s = &Signals{again: again, to: func(sig os.Signal) {
		number, ok := sig.(syscall.Signal)
		switch {
		case !ok || !slices.Contains(terminating, sig):
		case ctx.Err() != nil:
			hurry()
		default:
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

// Divert sends the signals to a channel until restore is called. It drops signals for which the
// channel has no room, as the kernel merges signals of one kind that follow each other quickly.
// What nobody has received from the channel by then goes where signals went before.
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
		for {
			select {
			case sig := <-c:
				s.to(sig)
			default:
				return
			}
		}
	}
}

func number(sig os.Signal) syscall.Signal {
	n, ok := sig.(syscall.Signal)
	if !ok {
		panic(fmt.Sprintf("leader: %v is not a signal of this system", sig))
	}
	return n
}
