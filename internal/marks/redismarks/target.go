package redismarks

import (
	"context"
	"net"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/internal/network/keepalive"
	"github.com/ringfence/ringfence/internal/network/password"
)

// Target is a server, as a URL names it.
type Target struct {
	opt       *driver.Options
	source    *password.Source // nil: the password of opt
	sentinels *sentinels       // nil: the address of opt
	DB        int
}

// NewTarget returns the server of a URL. timeouts are those of its connections.
func NewTarget(address string, timeouts keepalive.Timeouts) (Target, error) {
	t, err := parseURL(address)
	if err == nil {
		t.dialWith(timeouts)
	}
	return t, err
}

// dialWith has the driver dial the server, or the one that the Sentinels name.
func (t Target) dialWith(timeouts keepalive.Timeouts) {
	t.opt.Dialer = dialer(t.opt, timeouts)
	if t.sentinels != nil {
		if t.sentinels.dial == nil {
			t.sentinels.dial = t.opt.Dialer
		}
		t.opt.Dialer = t.sentinels.connect
	}
}

// Dial opens a connection that is not logged in: TCP, a Unix socket or TLS, as the URL says.
func (t Target) Dial(ctx context.Context) (net.Conn, error) {
	if t.sentinels == nil {
		return t.opt.Dialer(ctx, t.opt.Network, t.opt.Addr)
	}
	address, err := t.sentinels.primary(ctx)
	if err != nil {
		return nil, err
	}
	return t.sentinels.dial(ctx, "tcp", address)
}

// Login returns the user and the present password; "" for none.
func (t Target) Login(ctx context.Context) (user, present string, err error) {
	if t.source == nil {
		return t.opt.Username, t.opt.Password, nil
	}
	present, err = t.source.Read(ctx)
	return t.opt.Username, present, err
}

// HasPassword reports whether the URL has a password, or says where it is.
func (t Target) HasPassword() bool { return t.source != nil || t.opt.Password != "" }
