package carrier

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/guard/pgguard/wire"
	"github.com/ringfence/ringfence/internal/guard/relay"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/network/keepalive"
	"github.com/ringfence/ringfence/internal/postgres/pglogin"
	"github.com/ringfence/ringfence/internal/refusal"
)

// toPostgres presents a claim in startup packets.
type toPostgres struct {
	pgmarks.Target
	Route
	claim fence.Claim
}

func openPostgres(r Route, claim fence.Claim) (protocol, error) {
	to, err := pgmarks.NewTarget(r.Guard.Reveal(), keepalive.Timeouts{})
	return &toPostgres{to, r, claim}, err
}

func (p *toPostgres) guarded(ctx context.Context) (bool, error) {
	return pgmarks.Raiser{URL: p.Guard.Reveal()}.Present(ctx, p.claim)
}

// The program logs in by itself.
func (*toPostgres) needsLogin() bool { return false }

// connect implements protocol.
func (p *toPostgres) connect(
	ctx context.Context, client net.Conn,
) (fromClient, server relay.Leg, err error) {
	g := wire.NewGreeting(client, client) // which declines encryption
	s, err := g.Read()
	switch {
	case errors.Is(err, io.EOF):
		return fromClient, server, nil
	case errors.Is(err, wire.ErrDirectTLS), errors.Is(err, wire.ErrLength):
		return fromClient, server, err
	case err != nil:
		return fromClient, server, errors.Join(err, lastWord(client, wire.Fatal(err)))
	}
	if server.Conn, _, err = p.Dial(ctx); err != nil {
		if s.Cancel {
			return fromClient, server, err
		}
		return fromClient, server, errors.Join(err, lastWord(client, wire.Fatal(&wire.Error{
			Code: wire.CannotConnectNow, Message: "the guard cannot be reached", Detail: err.Error(),
			Hint: "nothing was written; connect again while this process leads",
		})))
	}
	packet := s.Packet
	if !s.Cancel {
		packet = wire.EncodeStartup(s.Minor, p.claimed(s.Params))
	}
	if len(packet) > wire.MaxStartupPacket {
		err := wire.Violation("the startup parameters leave no room for the token")
		return fromClient, server, errors.Join(err, lastWord(client, wire.Fatal(err)))
	}
	unhook := relay.WhenOver(ctx, func() { _ = server.SetDeadline(relay.Past) })
	_, err = server.Write(packet)
	if !unhook() {
		err = errors.Join(err, context.Cause(ctx))
	}
	return relay.Leg{Conn: client, Early: wire.Unused(g.From)}, server, err
}

// claimed adds the claim to the startup parameters.
func (p *toPostgres) claimed(params []wire.Param) []wire.Param {
	const name = "options"
	params = slices.Clone(params)
	i := slices.IndexFunc(params, func(p wire.Param) bool { return p.Name == name })
	if i < 0 {
		params, i = append(params, wire.Param{Name: name}), len(params)
	}
	params[i].Value = refusal.StartupOption(params[i].Value, p.claim)
	return params
}

// environ implements protocol.
func (p *toPostgres) environ(ctx context.Context, l net.Listener) ([][2]string, error) {
	host, port, path := where(l)
	u, err := url.Parse(p.Guard.Reveal())
	if err != nil {
		return nil, err
	}
	if p.Private && u.User != nil {
		u.User = url.User(u.User.Username())
	} else if !p.Private {
		present, err := pgmarks.Password(ctx, p.Guard.Reveal())
		if err != nil {
			return nil, err
		}
		if present != "" {
			u.User = url.UserPassword(u.User.Username(), present)
		}
	}
	q, err := pglogin.Options(u.RawQuery)
	if err != nil {
		return nil, err
	}
	for name := range q {
		if strings.HasPrefix(name, "ssl") || strings.HasPrefix(name, "pass") || name == "host" ||
			name == "port" {
			q.Del(name)
		}
	}
	q.Set("sslmode", "disable")
	u.Host = net.JoinHostPort(host, port)
	if path != "" {
		u.Host = ""
		q.Set("host", host)
		q.Set("port", port)
	}
	u.RawQuery = pglogin.Query(q)
	return [][2]string{
		{"PGHOST", host}, {"PGHOSTADDR", ""}, {"PGPORT", port}, {"PGSSLMODE", "disable"},
		{"DATABASE_URL", u.String()},
	}, nil
}
