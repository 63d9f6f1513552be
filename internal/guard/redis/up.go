package redis

import (
	"io"
	"net"
	"sync"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/refusal"
)

// up walks the commands of an admitted session. A command that fits into the relay's buffer is decided as a whole
// before any of it goes on; a larger one is looked at argument by argument while it passes.
type up struct {
	admitted []marks.Presented
	swaps    *swaps

	mu       sync.Mutex // Walk and drain
	args     [][]byte
	large    *large // the command under way, if it does not fit
	multi    bool   // a transaction is open, as far as the commands tell
	quit     bool   // the client has asked for the end
	draining bool
	stopped  bool // the sentinel of draining is sent: nothing more is taken
}

// Walk implements guard.Walker.
func (u *up) Walk(b []byte, w io.Writer) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	from, at := 0, 0 // b[from:at] may go on and has not yet
	flush := func() error {
		err := write(w, b[from:at])
		from = at
		return err
	}
	for at < len(b) && !u.stopped {
		step, err := u.next(b[at:], at == 0 && len(b) >= guard.BufferSize)
		if err != nil {
			_ = flush()
			return at, err
		}
		if step.dropped {
			if err := flush(); err != nil {
				return at, err
			}
			if err := write(w, step.instead); err != nil {
				return at, err
			}
			from = at + step.n
		}
		at += step.n
		if u.draining && u.between() {
			if err := flush(); err != nil {
				return at, err
			}
			return len(b), u.sentinel(w)
		}
		if step.n == 0 {
			break
		}
	}
	if u.stopped {
		return len(b), nil
	}
	return at, flush()
}

// step is what becomes of the next n bytes: they go on, or are dropped. n is 0 while more is needed to decide.
type step struct {
	n       int
	dropped bool
	instead []byte // sent in place of a command that is dropped
}

// next decides on what b begins with. full says that b is all that there can be.
func (u *up) next(b []byte, full bool) (step, error) {
	if u.large != nil {
		return u.pass(b, nil)
	}
	n, args, err := parseCommand(b, guard.BufferSize, u.args[:0])
	u.args = args[:0]
	_, long := err.(tooLong)
	switch {
	case err != nil && !long:
		return step{}, err
	case n == 0 && !long && !full:
		return step{}, nil
	case n > 0 && len(args) == 0:
		return step{n: n, dropped: true}, nil // after a line of blanks Valkey 8.1 takes any command for an inline one
	case n > 0:
		instead, err := u.decide(args)
		return step{n: n, dropped: instead != nil, instead: instead}, err
	}
	if u.large, err = beginLarge(b, args); err != nil {
		return step{}, err
	}
	instead, err := u.decide(append(args, unread))
	if err != nil {
		return step{}, err
	}
	u.large.dropped = instead != nil
	return u.pass(b, instead)
}

// pass takes the next part of a large command.
func (u *up) pass(b, instead []byte) (step, error) {
	n, err := u.large.pass(b)
	s := step{n: n, dropped: u.large.dropped, instead: instead}
	if u.large.ended() {
		u.large = nil
	}
	return s, err
}

func write(w io.Writer, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	_, err := w.Write(b)
	return err
}

// decide is nil for a command that passes, and else the command to send in its place, if there is room for its answer.
func (u *up) decide(args [][]byte) (swap []byte, err error) {
	rule := ruleOf(args[0])
	if refusal := forbidden(rule, args); refusal != nil {
		return u.swaps.add(line(refusal))
	}
	if rule == nil && len(args[0]) != len("FENCE") {
		return nil, nil
	}
	if answer := u.claimed(args); answer != nil {
		return u.swaps.add(answer)
	}
	if rule != nil {
		switch rule.moves {
		case opens:
			u.multi = true
		case closes:
			u.multi = false
		case leaves:
			u.quit = true
		}
	}
	return nil, nil
}

// claimed answers a second claim: the session keeps its token for life.
func (u *up) claimed(args [][]byte) (answer []byte) {
	claims, own, err := claimed(args)
	switch {
	case err != nil:
		return lineOf(err)
	case !within(claims, u.admitted):
		return line(keepsToken(u.admitted))
	case own && u.multi:
		return line(refusal.NotAllowed(called(args), "it cannot be part of a transaction"))
	case own:
		return []byte("+OK\r\n")
	}
	return nil
}

// between says that no command and no transaction is under way.
func (u *up) between() bool { return u.large == nil && !u.multi }

// sentinel sends a command whose answer shows that everything before it was answered.
func (u *up) sentinel(w io.Writer) error {
	u.stopped = true
	_, err := w.Write(u.swaps.last())
	return err
}

// drain stops taking commands, now or as soon as no transaction is open. It may be called while Walk runs.
func (u *up) drain(server net.Conn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.draining = true
	if u.between() {
		_ = u.sentinel(server) // a leg that cannot be written to ends by itself
	}
}
