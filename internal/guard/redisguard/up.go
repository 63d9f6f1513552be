package redisguard

import (
	"errors"
	"io"
	"net"
	"sync"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/guard/relay"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/refusal"
)

// up walks the commands of an admitted session. It decides on a command that fits into the relay's
// buffer as a whole, before any of it is sent. It checks a larger one argument by argument while it
// passes.
type up struct {
	admitted []marks.Presented
	injected *injectedReplies
	primary  *primary
	ended    <-chan struct{} // closed when the session has ended
	only     guard.OneUser   // whom the client's certificate lets it be
	trusted  trusted
	shutdown <-chan struct{} // closed when the guard shuts down; drain is called soon after

	mu       sync.Mutex // Walk and drain
	parser   parser     // of the first command in the buffer
	args     [][]byte
	large    *large // the command under way, if it does not fit
	multi    bool   // a transaction is open, judging by the commands
	quit     bool   // the client has sent QUIT
	silent   bool   // it may have turned its replies off
	draining bool
	stopped  bool // a sentinel is sent: the rest of the stream is discarded
	unused   bool // stopped, because the session was idle for too long
}

// Walk implements relay.Walker.
func (u *up) Walk(b []byte, w io.Writer) (int, error) {
	if u.primary != nil {
		if err := u.primary.pass(u.ended, func() { relay.Waits(w) }); err != nil {
			return 0, err
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	select {
	case <-u.shutdown: // drain may come late
		u.draining = true
	default:
	}
	if u.draining && u.atBoundary() && !u.stopped {
		return len(b), u.last(w, errDraining)
	}
	from, at := 0, 0 // b[from:at] may pass and has not been written yet
	flush := func() error {
		err := write(w, b[from:at])
		from = at
		return err
	}
	for at < len(b) && !u.stopped {
		within := u.large != nil
		step, err := u.next(b[at:], at == 0 && len(b) >= relay.BufferSize)
		if err != nil {
			flushed := flush()
			if flushed == nil && !within && !u.silent && errors.Is(err, errProtocol) {
				return len(b), u.last(w, err)
			}
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
		if u.draining && u.atBoundary() {
			if err := flush(); err != nil {
				return at, err
			}
			return len(b), u.last(w, errDraining)
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

// step says what happens to the next n bytes: they pass or are dropped. n is 0 if more bytes are
// needed to decide.
type step struct {
	n       int
	dropped bool
	instead []byte // sent in place of a command that is dropped
}

// next decides on the beginning of b. full means that the buffer has no room for more.
func (u *up) next(b []byte, full bool) (step, error) {
	if u.large != nil {
		return u.pass(b, nil)
	}
	n, args, err := u.parser.next(b, relay.BufferSize, u.args[:0])
	u.args = args[:0]
	length, long := err.(tooLong)
	switch {
	case err != nil && !long:
		return step{}, err
	case n == 0 && !long && !full:
		return step{}, nil
	case n > 0 && len(args) == 0:
		// After a blank line Valkey 8.1 takes any command for an inline one.
		return step{n: n, dropped: true}, nil
	case n > 0:
		instead, err := u.decide(args, true)
		return step{n: n, dropped: instead != nil, instead: instead}, err
	}
	if !long {
		args = u.parser.arguments(b, args, 0)
		u.parser.reset()
	}
	instead, err := u.decide(append(args, tooLongArgument), false)
	if err != nil {
		return step{}, err
	}
	if instead != nil && length > unlessSet { // such a client sends nothing more
		return step{}, protocolError("invalid bulk length")
	}
	if u.large, err = beginLarge(b, args); err != nil {
		return step{}, err
	}
	u.large.dropped = instead != nil
	return u.pass(b, instead)
}

// pass passes the next part of a large command.
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

// decide returns nil for a command that passes. Otherwise it returns the command to send in its
// place, if there is room for another injected reply. args are not the whole of a large command.
func (u *up) decide(args [][]byte, whole bool) (instead []byte, err error) {
	if refused := changesUser(u.only, args, whole); refused != nil {
		return u.injected.add(line(refused))
	}
	rule, refused := u.trusted.judge(args, whole)
	if refused != nil {
		return u.injected.add(line(refused))
	}
	switch rule.effect {
	case opensTransaction:
		u.multi = true
	case closesTransaction:
		u.multi = false
	case endsSession:
		u.quit = true
	case silences:
		u.silent = true
	case mayClaim:
		if answer := u.answerClaim(args); answer != nil {
			return u.injected.add(answer)
		}
	}
	return nil, nil
}

// answerClaim answers a second claim: the session keeps its token for life.
func (u *up) answerClaim(args [][]byte) (answer []byte) {
	claims, isFence, err := parseClaims(args)
	switch {
	case err != nil:
		return lineOf(err)
	case !within(claims, u.admitted):
		return line(keepsToken(u.admitted))
	case isFence && u.multi:
		return line(refusal.NotAllowed(commandName(args), "it cannot be part of a transaction"))
	case isFence:
		return []byte("+OK\r\n")
	}
	return nil
}

// atBoundary reports whether no command and no transaction is under way.
func (u *up) atBoundary() bool { return u.large == nil && !u.multi }

// last sends a command whose reply shows that everything before it was answered, and takes no more.
// The client gets why in its place. One of the answers before it may be long in coming, as that of
// BLPOP.
func (u *up) last(w io.Writer, why error) error {
	u.stopped = true
	_, err := w.Write(u.injected.sentinel(why))
	return err
}

// drain stops taking commands, now or as soon as no transaction is open. It may be called while
// Walk runs.
func (u *up) drain(server net.Conn) {
	if u.stops() {
		// Not under the mutex, because Redis may be slow to read. Walk writes nothing any more. After
		// a failed write the connection ends by itself.
		_, _ = server.Write(u.injected.sentinel(errDraining))
	}
}

// stops reports whether drain has to send the sentinel.
func (u *up) stops() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.draining = true
	if u.stopped || !u.atBoundary() {
		return false
	}
	u.stopped = true
	return true
}
