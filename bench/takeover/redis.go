package takeover

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/ringfence/ringfence/bench/internal/report"
	"github.com/ringfence/ringfence/bench/internal/ways"
)

// redis is a Redis with two guards.
type redis struct {
	*ways.Redis
	guards [2]*ways.GuardProcess
}

func startRedis(ctx context.Context, o report.Options) (_ database, err error) {
	r := &redis{}
	r.Redis, err = ways.StartRedis(ctx, ways.Options{
		Guard: o.Guard, Redis: []string{"--maxclients", "2000"},
	})
	if err != nil {
		return nil, err
	}
	r.guards[0] = r.Guard
	if r.guards[1], err = r.NewGuard(ctx, nil); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// replyLimit bounds one reply.
const replyLimit = 30 * time.Second

type redisSession struct {
	net.Conn
	reader *bufio.Reader
	writes bool
	limit  time.Duration // of one reply
}

func (s *redisSession) close() { _ = s.Close() }

// command sends an inline command and checks its reply, which is one line.
func (s *redisSession) command(text, want string) error {
	if err := s.SetDeadline(time.Now().Add(s.limit)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(s, "%s\r\n", text); err != nil {
		return err
	}
	got, err := s.reader.ReadString('\n')
	if err == nil && strings.TrimSpace(got) != want {
		err = fmt.Errorf("%s: %q, want %s", text, got, want)
	}
	return err
}

func (r *redis) open(
	ctx context.Context, guard int, token int64, writes bool,
) (session, error) {
	conn, err := ways.DialRedis(ctx, r.guards[guard].Redis, ways.Resource, token)
	if err != nil {
		return nil, err
	}
	s := &redisSession{
		Conn: conn, reader: bufio.NewReaderSize(conn, 512), writes: writes, limit: replyLimit,
	}
	if writes {
		err = errors.Join(s.command("MULTI", "+OK"), s.command("RPUSH written x", "+QUEUED"))
		if err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

func (r *redis) login(ctx context.Context) (session, error) {
	conn, err := r.Ways[0].DialRedis(ctx, ways.Resource, 0)
	if err != nil {
		return nil, err
	}
	s := &redisSession{Conn: conn, reader: bufio.NewReader(conn), limit: replyLimit}
	return s, s.command("PING", "+PONG")
}

// check lets every older session write. None may reach the server.
func (r *redis) check(ctx context.Context, older []session) error {
	for _, o := range older {
		if err := o.(*redisSession).cannotWrite(); err != nil {
			return err
		}
	}
	direct, err := r.login(ctx)
	if err != nil {
		return err
	}
	defer direct.close()
	return direct.(*redisSession).command("LLEN written", ":0")
}

// cannotWrite sends a write, or lets the queued one happen, and waits for the end of the
// connection.
func (s *redisSession) cannotWrite() error {
	write := "RPUSH written x\r\n"
	if s.writes {
		write = "EXEC\r\n"
	}
	_ = s.SetDeadline(time.Now().Add(s.limit))
	_, _ = io.WriteString(s, write) // it fails if the guard has closed the connection already
	_, err := io.Copy(io.Discard, s.reader)
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return errors.New("an older session is still open after the take-over")
	}
	return nil
}
