package redisguard

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/ringfence/ringfence/internal/marks/redismarks"

	"github.com/ringfence/ringfence/internal/guard/relay"
)

// upstream is the client's own connection to Redis. The handshake reads its replies one by one.
type upstream struct {
	net.Conn
	unhook   func() bool // detaches it from the context that ends it
	answered bool        // the server has answered, so it has taken the connection
	pending  []byte      // read, and not used yet
	frames   frames
}

// rest returns what the handshake has not used, and forgets it.
func (u *upstream) rest() []byte {
	rest := u.pending
	u.pending = nil
	return rest
}

// answersBy sets the time by which the server must have answered, until done is called.
func (u *upstream) answersBy(ctx context.Context, at time.Time) (done func()) {
	set := func(at time.Time) {
		_ = u.SetDeadline(at)
		if ctx.Err() != nil {
			_ = u.SetDeadline(relay.Past) // the line above may have replaced the one that ctx set
		}
	}
	set(at)
	return func() { set(time.Time{}) }
}

// copyReply copies exactly one reply to w as it arrives, and what the server pushes meanwhile to
// pushed. It returns the reply's first byte, which is '-' for an error.
func (u *upstream) copyReply(w, pushed io.Writer) (kind byte, err error) {
	if err := u.first(); err != nil {
		return 0, err
	}
	for {
		n, ended, err := u.frames.scan(u.pending)
		if err != nil {
			return 0, err
		}
		if n > 0 {
			to := w
			if u.frames.kind == '>' {
				to = pushed
			}
			if _, err := to.Write(u.pending[:n]); err != nil {
				return 0, err
			}
			u.pending = u.pending[n:]
		}
		if ended && u.frames.kind != '>' {
			return u.frames.kind, nil
		}
		if !ended {
			if err := u.fill(); err != nil {
				return 0, err
			}
		}
	}
}

func (u *upstream) fill() error {
	var chunk [4 << 10]byte
	n, err := u.Conn.Read(chunk[:])
	u.pending = append(bytes.Clone(u.pending), chunk[:n]...)
	if n > 0 {
		return nil
	}
	if err == io.EOF {
		return errServerClosed
	}
	return err
}

// errServerClosed: the server closed the connection.
var errServerClosed = errors.New("redis closed the connection")

// serverError is an error reply of Redis, as it is on the wire.
type serverError []byte

func (e serverError) Error() string { return string(bytes.TrimSpace(e)) }

// do sends the guard's own commands, all at once, and returns the values of the replies: a number
// or a string, empty for null. It reads every reply even if Redis refuses a command; then it
// returns the first such error.
func (u *upstream) do(pushed io.Writer, commands ...[]string) (values []string, err error) {
	var all []byte
	for _, words := range commands {
		all = append(all, redismarks.Command(words...)...)
	}
	if err := u.send(all); err != nil {
		return nil, err
	}
	var first error
	for _, words := range commands {
		value, err := u.readValue(pushed, words)
		if _, answered := errors.AsType[serverError](err); err != nil && !answered {
			return nil, err
		}
		first = cmp.Or(first, err)
		values = append(values, value)
	}
	return values, first
}

// readValue reads the reply to one of the guard's own commands.
func (u *upstream) readValue(pushed io.Writer, words []string) (string, error) {
	var raw bytes.Buffer
	kind, err := u.copyReply(&raw, pushed)
	if err != nil {
		return "", err
	}
	head, body, _ := bytes.Cut(raw.Bytes(), []byte("\r\n"))
	switch kind {
	case '-':
		return "", serverError(raw.Bytes())
	case '+', ':':
		return string(head[1:]), nil
	case '$':
		return string(bytes.TrimSuffix(body, []byte("\r\n"))), nil
	case '=':
		text := bytes.TrimSuffix(body, []byte("\r\n"))
		return string(text[min(len(text), len("txt:")):]), nil
	case '_':
		return "", nil
	}
	return "", fmt.Errorf("redis answered %q to %v", raw.Bytes(), words)
}
