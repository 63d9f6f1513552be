package redis

// large is a command that does not fit into the relay's buffer, on its way through it.
type large struct {
	header    int   // bytes of the first line that are still to pass
	arguments int64 // whose header is still to come
	payload   int64 // bytes of the argument under way, without its CRLF
	crlf      bool  // that CRLF is still to come
	dropped   bool  // it was refused: nothing of it goes on
}

// keyShown is how much of an argument shows whether it names one of our keys.
const keyShown = len(keyPrefix) + 1

// beginLarge reads the command's first line. Its first arguments were decided on before.
func beginLarge(b []byte) (*large, error) {
	count, n, err := parseHeader(b, "invalid multibulk length", argumentsMost)
	return &large{header: n, arguments: count}, err
}

// ended says that all of the command has passed.
func (l *large) ended() bool { return l.header == 0 && l.arguments == 0 && l.payload == 0 && !l.crlf }

// pass takes as much of b as can be decided on. A violation comes too late to refuse the command alone, for its first
// bytes are out: it ends the session, and Redis never executes a command that is not complete.
func (l *large) pass(b []byte) (n int, err error) {
	for n < len(b) && !l.ended() {
		switch {
		case l.header > 0:
			n, l.header = n+l.header, 0 // it was all there when the command began
		case l.payload > 0:
			took := min(l.payload, int64(len(b)-n))
			n, l.payload = n+int(took), l.payload-took
		case l.crlf:
			if len(b)-n < 2 {
				return n, nil
			}
			if b[n] != '\r' || b[n+1] != '\n' {
				return n, protocolError("an argument is longer than it says")
			}
			n, l.crlf = n+2, false
		default:
			took, err := l.argument(b[n:])
			if took == 0 || err != nil {
				return n, err
			}
			n += took
		}
	}
	return n, nil
}

// argument takes the header of the next argument once its first bytes can be seen with it.
func (l *large) argument(b []byte) (n int, err error) {
	length, n, err := parseArgument(b)
	if n == 0 || err != nil {
		return 0, err
	}
	shown := b[n:]
	if int64(len(shown)) < min(length, int64(keyShown)) {
		return 0, nil
	}
	if shown = shown[:min(length, int64(len(shown)))]; !l.dropped && ours(shown) {
		return 0, notAllowed([][]byte{[]byte("this command")}, "it names a key in which the guard keeps marks and sessions")
	}
	l.arguments, l.payload, l.crlf = l.arguments-1, length, true
	return n, nil
}
