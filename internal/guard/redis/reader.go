package redis

import (
	"bytes"
	"io"
	"net"
)

// commandMost is the longest command before the token.
const commandMost = 64 << 10

// inbox holds what a client has sent and the handshake has not used yet.
type inbox struct {
	conn net.Conn
	buf  []byte
	args [][]byte
}

// next waits for the first complete command. raw and args are good until the next call.
func (in *inbox) next() (raw []byte, args [][]byte, err error) {
	for {
		raw, args, err = in.ready()
		if err != nil || raw != nil {
			return raw, args, err
		}
		if len(in.buf) >= commandMost {
			return nil, nil, in.tooLong(commandMost)
		}
		if err := in.fill(); err != nil {
			return nil, nil, err
		}
	}
}

// ready returns the first command if all of it has come.
func (in *inbox) ready() (raw []byte, args [][]byte, err error) {
	size, args, err := parseCommand(in.buf, commandMost, in.args[:0])
	if length, ok := err.(tooLong); ok {
		return nil, nil, in.tooLong(length)
	}
	if size == 0 || err != nil {
		return nil, nil, err
	}
	in.args = args
	raw, in.buf = in.buf[:size:size], in.buf[size:]
	return raw, args, nil
}

// tooLong refuses a command before all of it has come, as Redis does where its own limit shows that it never will.
func (in *inbox) tooLong(argument tooLong) error {
	const unlessSet = 512 << 20 // proto-max-bulk-len
	if argument > unlessSet {
		return protocolError("invalid bulk length")
	}
	return protocolError("a command before the token is longer than 64 KiB")
}

func (in *inbox) fill() error {
	var chunk [4 << 10]byte
	n, err := in.conn.Read(chunk[:])
	in.buf = append(in.buf, chunk[:n]...)
	if n > 0 {
		return nil
	}
	return err
}

// rest is the client's stream from where the handshake has stopped.
func (in *inbox) rest() io.Reader {
	if len(in.buf) == 0 {
		return in.conn
	}
	return io.MultiReader(bytes.NewReader(bytes.Clone(in.buf)), in.conn)
}
