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

// protocol is one kind of server that can be guarded. A new one is an entry in the table below. The
// functions get the settings for one server of the kind.
type protocol struct {
	name     string
	upstream func(*config) string     // empty: not configured
	listen   func(*config) string     // empty: not served
	named    func(*config) []ofServer // the settings for those servers that have a name
	home     func(*config) *config    // the settings for the database that is served all the time
	database func(*config) string     // the database that the settings are for; "" if there is only one

	// open opens the store, for serve, status and adopt. It calls replaced if another database has got
	// the name of the store's; replaced may be nil.
	open func(ctx context.Context, c *config, replaced func()) (database, error)
	// serve returns the protocol that serves clients through an open store.
	serve func(c *config, s service) guard.Protocol
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

// opened is a store that is served.
type opened struct {
	database
	admission *marks.Admission
	unwatch   func() // ends what watch began
}

// service is what a protocol serves clients with.
type service struct {
	name string
	opened
	tls   guard.TLS
	audit *guard.Audit
	// another opens another database of the same server.
	another func(name string) (opened, error)
}

// protocols is every protocol there is.
var protocols = []protocol{postgresProtocol, redisProtocol}

var postgresProtocol = protocol{
	name:     "postgres",
	upstream: func(c *config) string { return c.PostgresUpstream.Reveal() },
	listen:   func(c *config) string { return c.PostgresListen },
	named:    (*config).namedPostgres,
	home:     (*config).homeDatabase,
	database: (*config).database,
	open: func(_ context.Context, c *config, replaced func()) (database, error) {
		return pgstore.Open(c.PostgresUpstream.Reveal(), pgstore.Options{
			AllowPrepared: c.PostgresAllowPrepared, Timeouts: c.timeouts(), Replaced: replaced,
		})
	},
	serve: func(c *config, s service) guard.Protocol {
		store := s.database.(*pgstore.Store)
		return guardpg.New(guardpg.Options{
			Name: s.name, Store: store, Admission: s.admission,
			LoginTimeout: c.LoginTimeout, IdleTimeout: c.IdleTimeout, Resources: c.resources(), TLS: s.tls,
			ReadOnly: c.Unfenced == "read-only",
			Audit:    s.audit, Operators: append([]string{store.Role()}, c.PostgresOperators...),
			Databases: c.PostgresDatabases, MaxDatabases: c.PostgresMaxDatabases,
			Another: func(name string) (*guardpg.Database, error) {
				other, err := s.another(name)
				if err != nil {
					return nil, err
				}
				return &guardpg.Database{
					Store: other.database.(*pgstore.Store), Admission: other.admission, Closing: other.unwatch,
				}, nil
			},
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
	named:    (*config).namedRedis,
	home:     func(c *config) *config { return c },
	database: func(*config) string { return "" },
	open: func(ctx context.Context, c *config, _ func()) (database, error) {
		// When Redis has lost a mark, only a coordinator knows the leader.
		o := redisstore.Options{Coordinated: c.Coordinator.Reveal() != "", Timeouts: c.timeouts()}
		return redisstore.Open(ctx, c.RedisUpstream.Reveal(), o)
	},
	serve: func(c *config, s service) guard.Protocol {
		return guardredis.New(guardredis.Options{
			Name: s.name, Store: s.database.(*redisstore.Store), Admission: s.admission,
			LoginTimeout: c.LoginTimeout, IdleTimeout: c.RedisIdleTimeout, SessionIdleTimeout: c.IdleTimeout,
			Resources: c.resources(), TLS: s.tls, ReadOnly: c.Unfenced == "read-only",
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
