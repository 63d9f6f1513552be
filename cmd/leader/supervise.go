package main

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

// supervisor decides what becomes of a running command: see the package documentation for when it must stop.
type supervisor struct {
	child   *child
	term    *fence.Term
	signals <-chan os.Signal
	policy  policy
	grace   time.Duration // between TERM and KILL
	margin  time.Duration // between KILL and the deadline
	log     *slog.Logger

	away   bool // the coordinator was out of reach when we last looked
	paused bool // by the policy
	told   bool // the command was told to end, by leader or by the operator's TERM
}

// supervise returns when nothing of the command is left: nil when it has ended by itself, else why it was stopped.
func (s *supervisor) supervise(ctx context.Context) error {
	s.fitGrace()
	why := s.attend(ctx)
	if why == nil {
		return nil
	}
	s.stop(why)
	if cause := context.Cause(s.term.Context()); errors.Is(cause, fence.ErrExpired) && !errors.Is(why, fence.ErrExpired) {
		return fmt.Errorf("%w, while the command was being stopped: %w", cause, why) // leader was paused meanwhile
	}
	return why
}

// fitGrace shortens a grace that the session the coordinator has granted is too short for. It was checked against the
// session that was asked for.
func (s *supervisor) fitGrace() {
	left := time.Until(s.term.Deadline())
	if s.grace+s.margin <= left*3/5 {
		return
	}
	s.grace = max(0, left*3/5-s.margin)
	s.log.Warn("the grace is shortened: the term began closer to its deadline than LEADER_SESSION_TIMEOUT promises",
		"grace", s.grace.String(), "left", left.String())
}

// attend is the state in which the command may run, or waits in a pause. It returns nil when the command has ended, or
// why it must stop.
func (s *supervisor) attend(ctx context.Context) error {
	for !s.child.hasEnded() {
		state, changed := s.term.Watch()
		if why := s.mustStop(ctx, state); why != nil {
			return why
		}
		s.follow(state)
		lastCall := time.NewTimer(time.Until(s.lastCall()))
		select {
		case <-s.child.ended:
		case sig := <-s.signals:
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
func (s *supervisor) lastCall() time.Time { return s.term.Deadline().Add(-s.grace - s.margin) }

func (s *supervisor) mustStop(ctx context.Context, state fence.State) error {
	switch {
	case state == fence.Lost:
		return context.Cause(s.term.Context())
	case !time.Now().Before(s.term.Deadline()):
		return fence.ErrExpired // the whole machine was paused, and the term has not noticed yet
	case !time.Now().Before(s.lastCall()):
		return errOutOfTime
	case state == fence.Suspended && s.policy == stopNow:
		return errDisconnected
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return nil
}

// follow pauses and resumes the command with the state of the term.
func (s *supervisor) follow(state fence.State) {
	if away := state == fence.Suspended; away == s.away {
		return
	} else if s.away = away; !away {
		s.resume()
		s.log.Info("the coordinator is back")
		return
	}
	doing := "it goes on"
	if s.policy == pause && !s.told {
		doing = "it is paused"
		s.paused = true
		s.child.signal(syscall.SIGSTOP)
	}
	s.log.Warn("the coordinator is out of reach", "command", doing, "at_most_until", s.lastCall())
}

// resume wakes the command if we have paused it; one that a person has stopped stays so.
func (s *supervisor) resume() {
	if s.paused {
		s.paused = false
		s.child.signal(syscall.SIGCONT)
	}
}

// forward passes an operator's signal on. A command that was told to end before, and a paused one that is told now, get
// more than that: the first is killed, the second woken up so that it can obey.
func (s *supervisor) forward(sig os.Signal) {
	if s.told && (sig == syscall.SIGTERM || sig == syscall.SIGINT) {
		s.log.Warn("told to stop for the second time; the command is killed")
		s.child.signal(syscall.SIGKILL)
		return
	}
	s.child.signal(number(sig))
	if sig == syscall.SIGTERM {
		s.told = true
		s.resume()
	}
}

// stop is the state in which the command has to end. It returns when nothing of it is left.
func (s *supervisor) stop(why error) {
	killAt := s.killAt(time.Now(), why)
	s.log.Warn("the command must stop", "cause", why.Error(), "kill_in", max(0, time.Until(killAt)).Round(time.Millisecond).String())
	s.told = true
	if time.Now().Before(killAt) {
		// TERM first: a stopped process then begins with it when it goes on. CONT whether paused by us or by a person.
		s.child.signal(syscall.SIGTERM)
		s.child.signal(syscall.SIGCONT)
		s.awaitEnd(killAt)
	}
	s.child.signal(syscall.SIGKILL)
	<-s.child.ended
}

// killAt is the end of the grace, or as much earlier as the deadline wants it.
func (s *supervisor) killAt(now time.Time, why error) time.Time {
	if errors.Is(why, fence.ErrExpired) {
		return now // another leader may be at work already
	}
	end := now.Add(s.grace)
	if latest := s.term.Deadline().Add(-s.margin); s.term.State() != fence.Lost && latest.Before(end) {
		return latest
	}
	return end
}

// awaitEnd returns when the command has ended, the time is up, or the term has expired meanwhile.
func (s *supervisor) awaitEnd(killAt time.Time) {
	kill := time.NewTimer(time.Until(killAt))
	defer kill.Stop()
	for {
		state, changed := s.term.Watch()
		if state == fence.Lost && errors.Is(context.Cause(s.term.Context()), fence.ErrExpired) {
			return
		}
		select {
		case <-s.child.ended:
			return
		case sig := <-s.signals:
			s.forward(sig)
		case <-changed:
		case <-kill.C:
			return
		}
	}
}
