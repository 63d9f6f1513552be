package redisguard

import (
	"bytes"
	"net"
)

// maxCommand is the longest command before admission.
const maxCommand = 64 << 10

// commandReader reads a client's commands during the handshake. It holds what the client has sent
// and the handshake has not used yet.
type commandReader struct {
	conn   net.Conn
	buf    []byte
	parser parser // of the first command in buf
	args   [][]byte
}

// next waits for the first complete command. raw and args are valid until the next call.
func (r *commandReader) next() (raw []byte, args [][]byte, err error) {
	for {
		raw, args, err = r.ready()
		if err != nil || raw != nil {
			return raw, args, err
		}
		if len(r.buf) >= maxCommand {
			return nil, nil, r.tooLong(maxCommand)
		}
		if err := r.fill(); err != nil {
			return nil, nil, err
		}
	}
}

// ready returns the first command if all of it has arrived.
func (r *commandReader) ready() (raw []byte, args [][]byte, err error) {
	size, args, err := r.parser.next(r.buf, maxCommand, r.args[:0])
	if length, ok := err.(tooLong); ok {
		return nil, nil, r.tooLong(length)
	}
	if size == 0 || err != nil {
		return nil, nil, err
	}
	r.args = args
	raw, r.buf = r.buf[:size:size], r.buf[size:]
	return raw, args, nil
}

// tooLong refuses a command before all of it has arrived. Redis does the same above its own limit,
// because then the client does not send the rest.
func (r *commandReader) tooLong(argument tooLong) error {
	if argument > unlessSet {
		return protocolError("invalid bulk length")
	}
	return protocolError("a command before the token is longer than 64 KiB")
}

func (r *commandReader) fill() error {
	var chunk [4 << 10]byte
	n, err := r.conn.Read(chunk[:])
	r.buf = append(r.buf, chunk[:n]...)
	if n > 0 {
		return nil
	}
	return err
}

// rest returns what the handshake has not used, and forgets everything.
func (r *commandReader) rest() []byte {
	rest := bytes.Clone(r.buf)
	r.buf, r.args, r.parser = nil, nil, parser{}
	return rest
}
