package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/ringfence/ringfence/fence"
)

// Supervisor decides what becomes of a running command: see the package documentation for when it must stop.
type Supervisor struct {
	Child   *Child // started
	Term    *fence.Term
	Signals <-chan os.Signal // the operator's; nil for none
	Policy  Policy
	Grace   time.Duration // between TERM and KILL
	Margin  time.Duration // between KILL and the deadline
	Log     *slog.Logger

	away   bool // the coordinator was out of reach when we last looked
	paused bool // by the policy
	told   bool // the command was told to end, by leader or by the operator's TERM
}

// Supervise returns when nothing of the command is left: nil when it has ended by itself, else why it was stopped.
func (s *Supervisor) Supervise(ctx context.Context) error {
	s.fitGrace()
	why := s.attend(ctx)
	if why == nil {
		return nil
	}
	s.stop(why)
	if cause := context.Cause(s.Term.Context()); errors.Is(cause, fence.ErrExpired) && !errors.Is(why, fence.ErrExpired) {
		return fmt.Errorf("%w, while the command was being stopped: %w", cause, why) // leader was paused meanwhile
	}
	return why
}

// fitGrace shortens a grace that the session the coordinator has granted is too short for. It was checked against the
// session that was asked for.
func (s *Supervisor) fitGrace() {
	left := time.Until(s.Term.Deadline())
	if s.Grace+s.Margin <= left*3/5 {
		return
	}
	s.Grace = max(0, left*3/5-s.Margin)
	s.Log.Warn("the grace is shortened: the term began closer to its deadline than LEADER_SESSION_TIMEOUT promises",
		"grace", s.Grace.String(), "left", left.String())
}

// attend is the state in which the command may run, or waits in a pause. It returns nil when the command has ended, or
// why it must stop.
func (s *Supervisor) attend(ctx context.Context) error {
	for !s.Child.hasEnded() {
		state, changed := s.Term.Watch()
		if why := s.mustStop(ctx, state); why != nil {
			return why
		}
		s.follow(state)
		lastCall := time.NewTimer(time.Until(s.lastCall()))
		select {
		case <-s.Child.ended:
		case sig := <-s.Signals:
			s.forward(sig)
		case <-changed:
		case <-lastCall.C: // the deadline may have moved on: look again
		case <-ctx.Done():
		}
		lastCall.Stop()
	}
	return nil
}

// lastCall is when the command has to be told, so that it is gone before the deadline.
func (s *Supervisor) lastCall() time.Time { return s.Term.Deadline().Add(-s.Grace - s.Margin) }

func (s *Supervisor) mustStop(ctx context.Context, state fence.State) error {
	switch {
	case state == fence.Lost:
		return context.Cause(s.Term.Context())
	case !time.Now().Before(s.Term.Deadline()):
		return fence.ErrExpired // the whole machine was paused, and the term has not noticed yet
	case !time.Now().Before(s.lastCall()):
		return ErrOutOfTime
	case state == fence.Suspended && s.Policy == StopNow:
		return ErrDisconnected
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return nil
}

// follow pauses and resumes the command with the state of the term.
func (s *Supervisor) follow(state fence.State) {
	if away := state == fence.Suspended; away == s.away {
		return
	} else if s.away = away; !away {
		s.resume()
		s.Log.Info("the coordinator is back")
		return
	}
	doing := "it goes on"
	if s.Policy == Pause && !s.told {
		doing = "it is paused"
		s.paused = true
		s.Child.signal(syscall.SIGSTOP)
	}
	s.Log.Warn("the coordinator is out of reach", "command", doing, "at_most_until", s.lastCall())
}

// resume wakes the command if we have paused it; one that a person has stopped stays so.
func (s *Supervisor) resume() {
	if s.paused {
		s.paused = false
		s.Child.signal(syscall.SIGCONT)
	}
}

// forward passes an operator's signal on. A command that was told to end before, and a paused one that is told now, get
// more than that: the first is killed, the second woken up so that it can obey.
func (s *Supervisor) forward(sig os.Signal) {
	if s.told && (sig == syscall.SIGTERM || sig == syscall.SIGINT) {
		s.Log.Warn("told to stop for the second time; the command is killed")
		s.Child.signal(syscall.SIGKILL)
		return
	}
	s.Child.signal(number(sig))
	if sig == syscall.SIGTERM {
		s.told = true
		s.resume()
	}
}

// stop is the state in which the command has to end. It returns when nothing of it is left.
func (s *Supervisor) stop(why error) {
	killAt := s.killAt(time.Now(), why)
	s.Log.Warn("the command must stop", "cause", why.Error(), "kill_in", max(0, time.Until(killAt)).Round(time.Millisecond).String())
	s.told = true
	if time.Now().Before(killAt) {
		// TERM first: a stopped process then begins with it when it goes on. CONT whether paused by us or by a person.
		s.Child.signal(syscall.SIGTERM)
		s.Child.signal(syscall.SIGCONT)
		s.awaitEnd(killAt)
	}
	s.Child.signal(syscall.SIGKILL)
	<-s.Child.ended
}

// killAt is the end of the grace, or as much earlier as the deadline wants it.
func (s *Supervisor) killAt(now time.Time, why error) time.Time {
	if errors.Is(why, fence.ErrExpired) {
		return now // another leader may be at work already
	}
	end := now.Add(s.Grace)
	if latest := s.Term.Deadline().Add(-s.Margin); s.Term.State() != fence.Lost && latest.Before(end) {
		return latest
	}
	return end
}

// awaitEnd returns when the command has ended, the time is up, or the term has expired meanwhile.
func (s *Supervisor) awaitEnd(killAt time.Time) {
	kill := time.NewTimer(time.Until(killAt))
	defer kill.Stop()
	for {
		state, changed := s.Term.Watch()
		if state == fence.Lost && errors.Is(context.Cause(s.Term.Context()), fence.ErrExpired) {
			return
		}
		select {
		case <-s.Child.ended:
			return
		case sig := <-s.Signals:
			s.forward(sig)
		case <-changed:
		case <-kill.C:
			return
		}
	}
}
