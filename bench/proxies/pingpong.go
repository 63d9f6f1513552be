package proxies

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/ringfence/ringfence/bench/internal/ways"
)

// pingPong sends the same request again and again, and waits for its reply, whose size is known. It
// blocks in the kernel, if the connection has no TLS: Go's own waiting for the network would add to
// the latency.
type pingPong struct {
	conn    io.ReadWriteCloser
	request []byte
	reply   []byte // where it is read
}

// replyLimit bounds one reply.
const replyLimit = 10 * time.Second

// newPingPong takes a connection over. It sends the request once more to learn how long the reply
// is: whole reads one reply.
func newPingPong(
	conn net.Conn, request []byte, whole func(io.Reader) (size int, err error),
) (*pingPong, error) {
	p, err := wholePingPong(conn, request, whole)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if _, encrypted := conn.(*tls.Conn); encrypted {
		p.conn = timed{conn}
		return p, nil
	}
	defer conn.Close()
	file, err := blocking(conn)
	if err != nil {
		return nil, err
	}
	p.conn = file
	return p, nil
}

// timed is a connection whose every write begins the time for a reply.
type timed struct{ net.Conn }

func (t timed) Write(b []byte) (int, error) {
	if err := t.SetDeadline(time.Now().Add(replyLimit)); err != nil {
		return 0, err
	}
	return t.Conn.Write(b)
}

// wholePingPong learns how long a reply is.
func wholePingPong(
	conn net.Conn, request []byte, whole func(io.Reader) (size int, err error),
) (*pingPong, error) {
	if err := conn.SetDeadline(time.Now().Add(replyLimit)); err != nil {
		return nil, err
	}
	if _, err := conn.Write(request); err != nil {
		return nil, err
	}
	size, err := whole(conn)
	if err != nil {
		return nil, err
	}
	return &pingPong{request: request, reply: make([]byte, size)}, nil
}

// blocking returns a copy of the connection in which reads and writes block.
func blocking(conn net.Conn) (*os.File, error) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil, fmt.Errorf("%T is no TCP connection", conn)
	}
	file, err := tcp.File()
	if err != nil {
		return nil, err
	}
	fd := int(file.Fd()) // blocking from here on
	limit := syscall.NsecToTimeval(replyLimit.Nanoseconds())
	err = syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &limit)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// trip makes one round trip.
func (p *pingPong) trip() error {
	if _, err := p.conn.Write(p.request); err != nil {
		return err
	}
	_, err := io.ReadFull(p.conn, p.reply)
	return err
}

func (p *pingPong) close() error { return p.conn.Close() }

// dialPostgres returns a client that executes a prepared statement.
func dialPostgres(ctx context.Context, w *ways.Way) (*pingPong, error) {
	conn, err := pgconn.Connect(ctx, w.PostgresURL(ways.Resource, 1))
	if err != nil {
		return nil, err
	}
	if _, err := conn.Prepare(ctx, "p", "select abalance from pgbench_accounts where aid = 1",
		nil); err != nil {
		return nil, errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
	}
	raw, err := conn.Hijack()
	if err != nil {
		return nil, err
	}
	var request []byte
	for _, m := range []pgproto3.FrontendMessage{
		&pgproto3.Bind{PreparedStatement: "p"}, &pgproto3.Execute{}, &pgproto3.Sync{},
	} {
		if request, err = m.Encode(request); err != nil {
			return nil, errors.Join(err, raw.Conn.Close())
		}
	}
	return newPingPong(raw.Conn, request, untilReady)
}

// untilReady reads the messages of a server up to ReadyForQuery.
func untilReady(r io.Reader) (size int, err error) {
	n := &sized{r: r}
	frontend := pgproto3.NewFrontend(n, nil)
	for {
		m, err := frontend.Receive()
		if err != nil {
			return 0, err
		}
		switch m := m.(type) {
		case *pgproto3.ErrorResponse:
			return 0, pgconn.ErrorResponseToPgError(m)
		case *pgproto3.ReadyForQuery:
			return n.size, nil
		}
	}
}

// sized counts what is read.
type sized struct {
	r    io.Reader
	size int
}

func (s *sized) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.size += n
	return n, err
}
