package supervise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/ringfence/ringfence/fence"
)

// Supervisor stops a running command when it must stop; see the package documentation.
type Supervisor struct {
	Child   *Child // started
	Term    *fence.Term
	Signals <-chan os.Signal // from the operator; nil for none
	Policy  Policy
	Grace   time.Duration // between TERM and KILL
	Margin  time.Duration // between KILL and the deadline
	Log     *slog.Logger

	Leaving <-chan struct{} // closed when leader itself has to stop; nil for never
	Notes   io.Writer       // gets a line about processes that cannot be ended; nil for none

	disconnected bool // the coordinator was out of reach at the last check
	paused       bool // by the policy
	told         bool // the command was told to end, by leader or by the operator's TERM

	ordered syscall.Signal // the operator's latest order to end, or 0
}

// Ordered returns the signal by which the operator told the command to end: TERM, or INT after the
// command had been told to stop. It reports false if there was none. Call it after Supervise.
func (s *Supervisor) Ordered() (Signalled, bool) { return Signalled{s.ordered}, s.ordered != 0 }

// Supervise returns when nothing is left of the command: nil if the command has ended by itself,
// else the reason why it was stopped. What cannot be ended is waited for as long as the term lasts,
// so that nobody begins beside it, unless leader has to stop; Child.Left names it then.
func (s *Supervisor) Supervise(ctx context.Context) error {
	s.fitGrace()
	defer s.awaitRest()
	why := s.attend(ctx)
	if why == nil {
		return nil
	}
	s.stop(why)
	cause := context.Cause(s.Term.Context())
	if errors.Is(cause, fence.ErrExpired) && !errors.Is(why, fence.ErrExpired) {
		// leader was paused in the meantime.
		return fmt.Errorf("%w, while the command was being stopped: %w", cause, why)
	}
	return why
}

// fitGrace shortens a grace that is too long for the session that the coordinator has granted. The
// settings were checked against the session that was requested.
func (s *Supervisor) fitGrace() {
	left := time.Until(s.Term.Deadline())
	if s.Grace+s.Margin <= left*3/5 {
		return
	}
	s.Grace = max(0, left*3/5-s.Margin)
	s.Log.Warn("the grace is shortened: the term began closer to its deadline than "+
		"LEADER_SESSION_TIMEOUT promises", "grace", s.Grace.String(), "left", left.String())
}

// attend is the state in which the command runs or is paused. It returns nil when the command has
// ended, or the reason why it must stop.
func (s *Supervisor) attend(ctx context.Context) error {
	for !isClosed(s.Child.ended) {
		state, changed := s.Term.Watch()
		if why := s.mustStop(ctx, state); why != nil {
			return why
		}
		s.follow(state)
		lastCall := time.NewTimer(time.Until(s.lastCall()))
		select {
		case <-s.Child.ended:
		case sig := <-s.Signals:
			if s.forward(sig) {
				lastCall.Stop()
				s.Child.awaitKill()
				return nil
			}
		case <-changed:
		case <-lastCall.C: // the deadline may have moved: check again
		case <-ctx.Done():
		}
		lastCall.Stop()
	}
	return nil
}

// lastCall is the latest time to send TERM, so that the command is gone before the deadline.
func (s *Supervisor) lastCall() time.Time { return s.Term.Deadline().Add(-s.Grace - s.Margin) }

func (s *Supervisor) mustStop(ctx context.Context, state fence.State) error {
	switch {
	case state == fence.Lost:
		return context.Cause(s.Term.Context())
	case !time.Now().Before(s.Term.Deadline()):
		return fence.ErrExpired // the machine was paused, and the term has not noticed yet
	case !time.Now().Before(s.lastCall()):
		return ErrOutOfTime
	case state == fence.Suspended && s.Policy == StopNow:
		return ErrDisconnected
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return nil
}

// follow pauses and resumes the command according to the state of the term.
func (s *Supervisor) follow(state fence.State) {
	disconnected := state == fence.Suspended
	if disconnected == s.disconnected {
		return
	}
	s.disconnected = disconnected
	if !disconnected {
		s.resume()
		s.Log.Info("the coordinator is back")
		return
	}
	doing := "it continues"
	if s.Policy == Pause && !s.told {
		doing = "it is paused"
		s.paused = true
		s.Child.signal(syscall.SIGSTOP)
	}
	s.Log.Warn("the coordinator is out of reach", "command", doing, "at_most_until", s.lastCall())
}

// resume continues the command if the policy has paused it, but not if a person has stopped it.
func (s *Supervisor) resume() {
	if s.paused {
		s.paused = false
		s.Child.signal(syscall.SIGCONT)
	}
}

// forward forwards an operator's signal. A command that was already told to end is killed. A paused
// one that is told to end is resumed, so that it can.
func (s *Supervisor) forward(sig os.Signal) (killed bool) {
	if s.told && (sig == syscall.SIGTERM || sig == syscall.SIGINT) {
		s.ordered = number(sig)
		s.Log.Warn("told to stop for the second time; the command is killed")
		s.Child.kill()
		return true
	}
	if sig != syscall.SIGTERM {
		s.sayIfRefused(s.Child.tell(number(sig)))
		return false
	}
	s.told, s.ordered = true, syscall.SIGTERM
	s.sayIfRefused(s.Child.end(s.Grace))
	s.resume()
	return false
}

// sayIfRefused says that the command does not get signals.
func (s *Supervisor) sayIfRefused(may bool) {
	if !may {
		s.Log.Error("the command has another user, and does not get leader's signals", "pid",
			s.Child.Pid(),
			"next", "run leader as that user or as root; only a control group of its own (Delegate=yes in "+
				"a unit) lets leader end it")
	}
}

// stop is the state in which the command has to end. It returns when the process group is gone.
func (s *Supervisor) stop(why error) {
	killAt := s.killAt(time.Now(), why)
	left := max(0, time.Until(killAt)).Round(time.Millisecond)
	s.Log.Warn("the command must stop", "cause", why.Error(), "kill_in", left.String())
	s.told = true
	if time.Now().Before(killAt) {
		// TERM comes first, so that a stopped process handles it when it continues. CONT is sent
		// whether the policy or a person has stopped the command.
		s.sayIfRefused(s.Child.end(s.Grace))
		s.Child.signal(syscall.SIGCONT)
		s.awaitEnd(killAt)
	}
	s.Child.kill()
	s.Child.awaitKill()
}

// killAt is the end of the grace, or earlier if the deadline requires it.
func (s *Supervisor) killAt(now time.Time, why error) time.Time {
	if errors.Is(why, fence.ErrExpired) {
		return now // another leader may already work
	}
	end := now.Add(s.Grace)
	latest := s.Term.Deadline().Add(-s.Margin)
	if s.Term.State() != fence.Lost && latest.Before(end) {
		return latest
	}
	return end
}

// awaitEnd returns when the command has ended, the time is up, or the term has expired.
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

// restPause is the time between two attempts to end what is left of a command.
const restPause = time.Second

// awaitRest waits until nothing is left of a command whose processes could not be ended.
func (s *Supervisor) awaitRest() {
	left := s.Child.Left()
	if left == "" {
		return
	}
	s.note("these processes of the command were killed and are still there: " + left)
	s.Log.Error("processes of the command were killed and are still there; the term goes on meanwhile",
		"left", left, "next", "end them as root or as their user; a signal ends the wait")
	again := time.NewTicker(restPause)
	defer again.Stop()
	for s.ordered == 0 && s.isLeft() {
		select {
		case <-s.Term.Context().Done():
			return
		case <-s.Leaving:
			return
		case sig := <-s.Signals:
			s.forward(sig)
		case <-again.C:
			s.Child.killAgain()
		}
	}
	if s.Child.Left() == "" {
		s.note("they are gone")
		s.Log.Info("nothing is left of the command")
	}
}

// isLeft reports whether something of the command is left.
func (s *Supervisor) isLeft() bool {
	if s.Child.Left() == "" { // the command itself may have ended just now
		s.Child.awaitKill()
	}
	return s.Child.Left() != ""
}

func (s *Supervisor) note(text string) {
	if s.Notes != nil {
		_, _ = fmt.Fprintf(s.Notes, "leader: %s\n", text)
	}
}
