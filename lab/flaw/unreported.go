package flaw

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/url"

	"github.com/jackc/pgx/v5/pgproto3"
)

// unreported is the setting that makes the transactions of a session without a token read-only.
const unreported = "default_transaction_read_only"

// Unreport returns the URL of a relay to a Postgres without TLS, which leaves out what the server
// reports of the setting after the login. A guard behind it believes that a session is read-only
// because it was so at its login. The relay ends with stop.
func Unreport(upstream string) (to string, stop func() error, err error) {
	u, err := url.Parse(upstream)
	if err != nil {
		return "", nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := u.Host
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go relayUnreported(client, server)
		}
	}()
	u.Host = l.Addr().String()
	return u.String(), l.Close, nil
}

func relayUnreported(client net.Conn, address string) {
	defer client.Close()
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	}()
	_ = leaveOut(client, server)
}

// leaveOut passes on the messages of a server, but for the reports.
func leaveOut(to io.Writer, from io.Reader) error {
	for ready := false; ; {
		var head [5]byte
		if _, err := io.ReadFull(from, head[:]); err != nil {
			return err
		}
		length := binary.BigEndian.Uint32(head[1:])
		if length < 4 {
			return errors.New("not a message")
		}
		message := append(head[:], make([]byte, length-4)...)
		if _, err := io.ReadFull(from, message[5:]); err != nil {
			return err
		}
		var status pgproto3.ParameterStatus
		if ready && head[0] == 'S' && status.Decode(message[5:]) == nil && status.Name == unreported {
			continue
		}
		ready = ready || head[0] == 'Z'
		if _, err := to.Write(message); err != nil {
			return err
		}
	}
}
