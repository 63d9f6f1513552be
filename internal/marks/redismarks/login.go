package redismarks

import (
	"context"
	"fmt"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/internal/network/password"
)

// logIn has every new connection log in with the present password. Its database is decided by then:
// the driver selects that before we could log in.
func (t Target) logIn() {
	switch {
	case t.source == nil:
	case t.opt.DB == 0:
		logInFirst(t.opt, t.source)
	default:
		t.opt.CredentialsProviderContext = credentials(t.opt.Username, t.source)
	}
}

// credentials are those of a driver that logs in by itself. It gives up at the first refusal.
func credentials(
	name string, source *password.Source,
) func(context.Context) (user, present string, err error) {
	return func(ctx context.Context) (user, present string, err error) {
		present, err = source.Read(ctx)
		return name, present, err
	}
}

// logInFirst has every new connection to database 0 log in before anything else, again while the
// server refuses the password.
func logInFirst(opt *driver.Options, source *password.Source) {
	user, name, next := opt.Username, opt.ClientName, opt.OnConnect
	opt.Username, opt.ClientName = "", "" // the driver would send them before the login
	opt.OnConnect = func(ctx context.Context, c *driver.Conn) error {
		err := source.Login(ctx, driver.IsAuthError, func(present string) error {
			if user == "" {
				return c.Auth(ctx, present).Err()
			}
			return c.AuthACL(ctx, user, present).Err()
		})
		if err != nil {
			return fmt.Errorf("log in: %w", err) // the driver takes this off, and no more
		}
		if err := c.ClientSetName(ctx, name).Err(); err != nil {
			return err
		}
		return next(ctx, c)
	}
}
