package carrier

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/guard/relay"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/network/keepalive"
)

// toRedis presents a claim by FENCE.
type toRedis struct {
	redismarks.Target
	url   string
	claim fence.Claim
}

func openRedis(r Route, claim fence.Claim) (protocol, error) {
	to, err := redismarks.NewTarget(r.Guard.Reveal(), keepalive.Timeouts{})
	if err != nil {
		return nil, err
	}
	return &toRedis{to, r.Guard.Reveal(), claim}, nil
}

func (p *toRedis) guarded(ctx context.Context) (bool, error) {
	return redismarks.Raiser{URL: p.url}.Present(ctx, p.claim)
}

func (p *toRedis) needsLogin() bool { return p.HasPassword() }

// connect implements protocol. What it tells a client stands where the answer to its first command
// would, as Redis does it for one client too many.
func (p *toRedis) connect(
	ctx context.Context, client net.Conn,
) (fromClient, server relay.Leg, err error) {
	if server.Conn, err = p.Dial(ctx); err == nil {
		unhook := relay.WhenOver(ctx, func() { _ = server.SetDeadline(relay.Past) })
		server.Early, err = p.present(ctx, server.Conn)
		if !unhook() {
			err = errors.Join(err, context.Cause(ctx))
		}
	}
	if err != nil {
		return fromClient, server, errors.Join(err, lastWord(client, []byte("-"+answer(err)+"\r\n")))
	}
	return relay.Leg{Conn: client}, server, nil
}

// refused is an error that the guard or Redis has answered.
type refused string

func (r refused) Error() string { return string(r) }

// answer returns what a client is told.
func answer(err error) string {
	if said, ok := errors.AsType[refused](err); ok {
		return string(said)
	}
	return "ERR the guard cannot be reached; nothing was written: " +
		strings.Join(strings.Fields(err.Error()), " ")
}

// present logs in and claims. It returns what came behind the answers.
func (p *toRedis) present(ctx context.Context, server net.Conn) ([]byte, error) {
	user, password, err := p.Login(ctx)
	if err != nil {
		return nil, err
	}
	from := bufio.NewReader(server)
	switch {
	case password != "" && user != "":
		err = ask(server, from, "AUTH", user, password)
	case password != "":
		err = ask(server, from, "AUTH", password)
	}
	if err == nil {
		err = ask(server, from, "FENCE", string(p.claim.Resource), p.claim.Token.String())
	}
	if err != nil {
		return nil, err
	}
	return from.Peek(from.Buffered())
}

// ask sends a command whose answer is a line.
func ask(server io.Writer, from *bufio.Reader, command ...string) error {
	if _, err := server.Write(redismarks.Command(command...)); err != nil {
		return err
	}
	line, err := from.ReadSlice('\n') // at most the buffer
	if err != nil {
		return err
	}
	if said, failed := strings.CutPrefix(strings.TrimSpace(string(line)), "-"); failed {
		return refused(said)
	}
	return nil
}

// environ implements protocol. The program needs no password.
func (p *toRedis) environ(_ context.Context, l net.Listener) ([][2]string, error) {
	host, port, path := where(l)
	u := url.URL{Scheme: "redis", Host: net.JoinHostPort(host, port), Path: "/" + strconv.Itoa(p.DB)}
	if path != "" {
		u = url.URL{Scheme: "unix", Path: path, RawQuery: "db=" + strconv.Itoa(p.DB)}
	}
	return [][2]string{{"REDIS_URL", u.String()}}, nil
}
