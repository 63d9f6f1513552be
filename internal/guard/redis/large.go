package redis

import (
	"bytes"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/refusal"
)

// large is a command that does not fit into the relay's buffer, on its way through it. Its first arguments were decided
// on as a whole; it is passed on as it comes, so that the server can judge it. A header says nothing that could be
// refused and passes at once; an argument waits for as much of it as shows whether it may pass.
type large struct {
	header    int   // bytes of the first line that are still to pass
	decided   int   // arguments still to pass that were decided on
	arguments int64 // whose header is still to come
	payload   int64 // bytes of the argument under way, without its CRLF
	unseen    bool  // it was not looked at yet
	crlf      bool  // that CRLF is still to come
	names     bool  // it can give the connection a name
	dropped   bool  // it was refused: nothing of it goes on
}

// shownMost is how much of an argument shows whether it names one of our keys, or may be a claim.
const shownMost = max(len(keyPrefix)+1, len(refusal.Prefix))

// unread stands for the argument that does not fit, where a command is decided on by those before it. It is no word
// that a rule knows, no key of ours, no resource and no token. Of the words that rules know all fit.
var unread = []byte("(too long)")

// beginLarge reads the command's first line. args are its first arguments, which were decided on.
func beginLarge(b []byte, args [][]byte) (*large, error) {
	count, n, err := parseHeader(b, "invalid multibulk length", argumentsMost)
	l := &large{header: n, decided: len(args), arguments: count}
	if len(args) > 0 {
		l.names = equalFold(args[0], "HELLO") || equalFold(args[0], "CLIENT") && len(args) > 1 && equalFold(args[1], "SETNAME")
	}
	return l, err
}

// ended says that all of the command has passed.
func (l *large) ended() bool { return l.header == 0 && l.arguments == 0 && l.payload == 0 && !l.crlf }

// pass takes as much of b as can be decided on. A violation comes too late to refuse the command alone, for its first
// bytes are out: it ends the session, and Redis never executes a command that is not complete.
func (l *large) pass(b []byte) (n int, err error) {
	for n < len(b) && !l.ended() {
		took, err := l.next(b[n:])
		if took == 0 || err != nil {
			return n, err
		}
		n += took
	}
	return n, nil
}

// next takes one part of the command, or none while more of it is needed.
func (l *large) next(b []byte) (n int, err error) {
	switch {
	case l.header > 0:
		n, l.header = l.header, 0 // it was all there when the command began
		return n, nil
	case l.unseen:
		if int64(len(b)) < min(l.payload, int64(shownMost)) {
			return 0, nil
		}
		if err := l.look(b[:min(l.payload, int64(len(b)))]); err != nil {
			return 0, err
		}
		l.unseen = false
		fallthrough
	case l.payload > 0:
		n = int(min(l.payload, int64(len(b))))
		l.payload -= int64(n)
		return n, nil
	case l.crlf:
		if len(b) < 2 {
			return 0, nil
		}
		if b[0] != '\r' || b[1] != '\n' {
			return 0, protocolError("an argument is longer than it says")
		}
		l.crlf = false
		return 2, nil
	}
	length, n, err := parseArgument(b)
	if n == 0 || err != nil {
		return 0, err
	}
	l.arguments, l.payload, l.crlf = l.arguments-1, length, true
	l.unseen = length > 0 && l.decided == 0 && !l.dropped
	l.decided = max(0, l.decided-1)
	return n, nil
}

// look refuses an argument by its beginning.
func (l *large) look(arg []byte) error {
	switch {
	case ours(arg):
		return refusal.NotAllowed("this command", "it names a key in which the guard keeps marks and sessions")
	case l.names && bytes.HasPrefix(arg, []byte(refusal.Prefix)):
		return refusal.BadClaim("a claim is too far back in a command", "a session keeps its token for life", fence.ErrMalformed)
	}
	return nil
}
