package main

import (
	"context"

	"github.com/ringfence/ringfence/internal/guard"
	guardpg "github.com/ringfence/ringfence/internal/guard/postgres"
	guardredis "github.com/ringfence/ringfence/internal/guard/redis"
	"github.com/ringfence/ringfence/internal/marks"
	pgstore "github.com/ringfence/ringfence/internal/marks/postgres"
	redisstore "github.com/ringfence/ringfence/internal/marks/redis"
)

// protocol is one database that can be guarded. A new one is an entry in the table below.
type protocol struct {
	name     string
	upstream func(*config) string // empty: not configured
	listen   func(*config) string // empty: not served

	// open opens the store, for serve, status and adopt.
	open func(ctx context.Context, c *config) (database, error)
	// serve returns the protocol that serves clients through an open store.
	serve func(
		c *config, d database, a *marks.Admission, t guard.TLS, audit *guard.Audit,
	) guard.Protocol
	// authorizer opens the store for an operator who says who may claim what.
	authorizer func(ctx context.Context, c *config) (closingAuthorizer, error)
	// install prepares the database; script returns the commands that install runs, to be printed.
	install func(ctx context.Context, c *config) error
	script  func(c *config) (string, error)
}

// database is a store with the operations of an operator.
type database interface {
	marks.Store
	marks.Admin
	Probe(ctx context.Context) error
	Close()
}

// closingAuthorizer is a marks.Authorizer with a connection.
type closingAuthorizer interface {
	marks.Authorizer
	Close()
}

// protocols is every protocol there is.
var protocols = []protocol{postgresProtocol, redisProtocol}

var postgresProtocol = protocol{
	name:     "postgres",
	upstream: func(c *config) string { return c.PostgresUpstream.Reveal() },
	listen:   func(c *config) string { return c.PostgresListen },
	open: func(_ context.Context, c *config) (database, error) {
		return pgstore.Open(c.PostgresUpstream.Reveal(), pgstore.Options{
			AllowPrepared: c.PostgresAllowPrepared, Timeouts: c.timeouts(),
		})
	},
	serve: func(
		c *config, d database, a *marks.Admission, t guard.TLS, audit *guard.Audit,
	) guard.Protocol {
		store := d.(*pgstore.Store)
		return guardpg.New(guardpg.Options{
			Store: store, Admission: a, LoginTimeout: c.LoginTimeout, IdleTimeout: c.IdleTimeout,
			ReadOnly: c.Unfenced == "read-only", Resources: c.resources(), TLS: t,
			Audit: audit, Operators: append([]string{store.Role()}, c.PostgresOperators...),
		})
	},
	authorizer: func(ctx context.Context, c *config) (closingAuthorizer, error) {
		return pgstore.OpenAuthorizer(ctx, c.PostgresAdmin.Reveal())
	},
	install: func(ctx context.Context, c *config) error {
		role, err := pgstore.Role(c.PostgresUpstream.Reveal())
		if err != nil {
			return err
		}
		return pgstore.Install(ctx, c.PostgresAdmin.Reveal(), role, c.PostgresLeaders...)
	},
	script: func(c *config) (string, error) {
		role, err := pgstore.Role(c.PostgresUpstream.Reveal())
		if err != nil {
			return "", err
		}
		return pgstore.InstallSQL(role, c.PostgresLeaders...)
	},
}

var redisProtocol = protocol{
	name:     "redis",
	upstream: func(c *config) string { return c.RedisUpstream.Reveal() },
	listen:   func(c *config) string { return c.RedisListen },
	open: func(ctx context.Context, c *config) (database, error) {
		// When Redis has lost a mark, only a coordinator knows the leader.
		o := redisstore.Options{Coordinated: c.Coordinator.Reveal() != "", Timeouts: c.timeouts()}
		return redisstore.Open(ctx, c.RedisUpstream.Reveal(), o)
	},
	serve: func(
		c *config, d database, a *marks.Admission, t guard.TLS, _ *guard.Audit,
	) guard.Protocol {
		return guardredis.New(guardredis.Options{
			Store: d.(*redisstore.Store), Admission: a, LoginTimeout: c.LoginTimeout,
			IdleTimeout: c.RedisIdleTimeout, SessionIdleTimeout: c.IdleTimeout, Resources: c.resources(), TLS: t,
			ReadOnly: c.Unfenced == "read-only",
		})
	},
	authorizer: func(ctx context.Context, c *config) (closingAuthorizer, error) {
		return redisstore.Open(ctx, c.RedisUpstream.Reveal(), redisstore.Options{Timeouts: c.timeouts()})
	},
	install: func(ctx context.Context, c *config) error {
		return redisstore.Install(ctx, c.RedisUpstream.Reveal())
	},
	script: func(c *config) (string, error) {
		return redisstore.InstallText(c.RedisUpstream.Reveal())
	},
}

// configured returns the protocols for which the settings name an upstream.
func (c *config) configured() []protocol {
	var all []protocol
	for _, p := range protocols {
		if p.upstream(c) != "" {
			all = append(all, p)
		}
	}
	return all
}
