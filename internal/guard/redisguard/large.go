package redisguard

import (
	"bytes"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/refusal"
)

// large is a command that does not fit into the relay's buffer, on its way through it. The guard
// has decided on its first arguments as a whole. It passes the command on as it arrives, so that
// the server can judge it. Headers pass at once, because nothing in a header could be refused. An
// argument waits until enough of it is there to show whether it may pass.
type large struct {
	header    int   // bytes of the first line that are still to pass
	decided   int   // arguments still to pass that the guard has decided on
	arguments int64 // number of arguments whose header is still to come
	payload   int64 // bytes still to come of the current argument, without its CRLF
	unchecked bool  // the current argument was not checked yet
	crlf      bool  // the CRLF of the current argument is still to come
	canName   bool  // the command can give the connection a name
	dropped   bool  // the command was refused: none of it passes
}

// maxShown is how much of an argument shows whether it names one of our keys, or may be a claim.
const maxShown = max(len(keyPrefix)+1, len(refusal.Prefix))

// tooLongArgument takes the place of the argument that does not fit when the guard decides on a
// command by the arguments before it. It is no command, subcommand or key of ours, nor a resource,
// nor a token.
var tooLongArgument = []byte("(too long)")

// beginLarge reads the command's first line. args are its first arguments, on which the guard has
// decided.
func beginLarge(b []byte, args [][]byte) (*large, error) {
	count, n, err := parseHeader(b, "invalid multibulk length", maxArguments)
	l := &large{header: n, decided: len(args), arguments: count}
	if len(args) > 0 {
		l.canName = equalFold(args[0], "HELLO") ||
			equalFold(args[0], "CLIENT") && len(args) > 1 && equalFold(args[1], "SETNAME")
	}
	return l, err
}

// ended reports whether all of the command has passed.
func (l *large) ended() bool {
	return l.header == 0 && l.arguments == 0 && l.payload == 0 && !l.crlf
}

// pass passes as much of b as it can decide on. A violation comes too late to refuse the command
// alone, because its first bytes have been sent. It ends the session; Redis never executes an
// incomplete command.
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

// next passes one part of the command, or nothing if it needs more bytes.
func (l *large) next(b []byte) (n int, err error) {
	switch {
	case l.header > 0:
		n, l.header = l.header, 0 // it was all there when the command began
		return n, nil
	case l.unchecked:
		if int64(len(b)) < min(l.payload, int64(maxShown)) {
			return 0, nil
		}
		if err := l.check(b[:min(l.payload, int64(len(b)))]); err != nil {
			return 0, err
		}
		l.unchecked = false
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
	l.unchecked = length > 0 && l.decided == 0 && !l.dropped
	l.decided = max(0, l.decided-1)
	return n, nil
}

// check refuses an argument by its beginning.
func (l *large) check(arg []byte) error {
	switch {
	case isGuardKey(arg):
		return refusal.NotAllowed("this command", namesKey)
	case l.canName && bytes.HasPrefix(arg, []byte(refusal.Prefix)):
		return refusal.BadClaim("a claim is too far back in a command",
			"a session keeps its token for life", fence.ErrMalformed)
	}
	return nil
}
