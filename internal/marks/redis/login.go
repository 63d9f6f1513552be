package redis

import (
	"context"
	"fmt"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/internal/network/password"
)

// logInFirst has every new connection log in with the present password before anything else. The
// driver would give up at the first refusal.
func logInFirst(opt *driver.Options, source *password.Source) {
	user, name, db, next := opt.Username, opt.ClientName, opt.DB, opt.OnConnect
	opt.Username, opt.ClientName, opt.DB = "", "", 0 // the driver would send them before the login
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
		_, err = c.Pipelined(ctx, func(p driver.Pipeliner) error {
			p.ClientSetName(ctx, name)
			p.Select(ctx, db)
			return nil
		})
		if err != nil {
			return err
		}
		return next(ctx, c)
	}
}
