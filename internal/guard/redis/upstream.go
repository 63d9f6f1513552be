package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/ringfence/ringfence/internal/guard"
)

// leg is the client's own connection to Redis. During the handshake its replies are read one by one.
type leg struct {
	net.Conn
	unhook  func() bool // from the context that ends it
	pending []byte      // read, and not used yet
	frames  frames
}

// Read gives the relay what the handshake has read too much, and then the connection.
func (l *leg) Read(b []byte) (int, error) {
	if len(l.pending) > 0 {
		n := copy(b, l.pending)
		l.pending = l.pending[n:]
		return n, nil
	}
	return l.Conn.Read(b)
}

// answerBy sets when the server has to have answered; the zero time is never.
func (l *leg) answerBy(ctx context.Context, at time.Time) {
	_ = l.SetDeadline(at)
	if ctx.Err() != nil {
		_ = l.SetDeadline(guard.Past) // the one that the end of ctx has set may have been before ours
	}
}

// CloseWrite lets the relay half-close the leg.
func (l *leg) CloseWrite() error {
	if half, ok := l.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return l.Conn.Close()
}

// reply passes exactly one reply on to w as it comes, and what the server pushes meanwhile to pushed. It returns the
// reply's first byte, '-' for an error.
func (l *leg) reply(w, pushed io.Writer) (kind byte, err error) {
	for {
		n, ended, err := l.frames.scan(l.pending)
		if err != nil {
			return 0, err
		}
		if n > 0 {
			to := w
			if l.frames.kind == '>' {
				to = pushed
			}
			if _, err := to.Write(l.pending[:n]); err != nil {
				return 0, err
			}
			l.pending = l.pending[n:]
		}
		if ended && l.frames.kind != '>' {
			return l.frames.kind, nil
		}
		if !ended {
			if err := l.fill(); err != nil {
				return 0, err
			}
		}
	}
}

func (l *leg) fill() error {
	var chunk [4 << 10]byte
	n, err := l.Conn.Read(chunk[:])
	l.pending = append(bytes.Clone(l.pending), chunk[:n]...)
	if n > 0 {
		return nil
	}
	if err == io.EOF {
		return errLeft
	}
	return err
}

// errLeft says that the server closed the leg.
var errLeft = errors.New("redis closed the connection")

// serverError is an error that Redis answered to a question of the guard's, as it came.
type serverError []byte

func (e serverError) Error() string { return string(bytes.TrimSpace(e)) }

// ask sends commands of the guard's own on the leg, all at once, and returns the values: of a number or a string, empty
// for null. With an error of Redis every command has been answered; it is the first.
func (l *leg) ask(pushed io.Writer, commands ...[]string) (values []string, err error) {
	var all []byte
	for _, words := range commands {
		all = append(all, command(words...)...)
	}
	if _, err := l.Conn.Write(all); err != nil {
		return nil, err
	}
	var first error
	for _, words := range commands {
		value, err := l.answer(pushed, words)
		var answered serverError
		if err != nil && !errors.As(err, &answered) {
			return nil, err
		}
		if first == nil {
			first = err
		}
		values = append(values, value)
	}
	return values, first
}

// answer reads what the server answers to a command of the guard's own.
func (l *leg) answer(pushed io.Writer, words []string) (string, error) {
	var raw bytes.Buffer
	kind, err := l.reply(&raw, pushed)
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

// command is a command on the wire.
func command(words ...string) []byte {
	b := []byte("*" + strconv.Itoa(len(words)) + "\r\n")
	for _, w := range words {
		b = append(b, "$"+strconv.Itoa(len(w))+"\r\n"+w+"\r\n"...)
	}
	return b
}
