package main

import (
	"log/slog"
	"strings"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/guard/pgguard"
	"github.com/ringfence/ringfence/internal/guard/redisguard"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/settings"
)

// protocol is one kind of server that can be guarded.
type protocol struct {
	name  string
	label string                          // for people
	role  string                          // who logs in there, for people
	first func(*upstreams) guard.Upstream // the settings of the server without a name
	names func(*upstreams) []string       // the names of further servers
	fresh func() guard.Upstream           // settings for one of them
	logTo func(*slog.Logger)              // for what its driver logs by itself; nil if it does not
}

// protocols is every protocol there is. A new one is an entry here, with two fields of upstreams.
var protocols = []protocol{
	{
		"postgres", "Postgres", "a role of Postgres, which stands for its members, too",
		func(u *upstreams) guard.Upstream { return &u.Postgres },
		func(u *upstreams) []string { return u.PostgresServers },
		func() guard.Upstream { return &pgguard.Settings{} },
		nil,
	},
	{
		"redis", "Redis", "a user of Redis",
		func(u *upstreams) guard.Upstream { return &u.Redis },
		func(u *upstreams) []string { return u.RedisServers },
		func() guard.Upstream { return &redisguard.Settings{} },
		redismarks.LogTo,
	},
}

// upstreams are the settings of the servers: for each protocol those of the one without a name, and
// the names of others.
type upstreams struct {
	Postgres        pgguard.Settings    `envPrefix:"GUARD_POSTGRES_" use:"stores"`
	PostgresServers []string            `env:"GUARD_POSTGRES_SERVERS"`
	RedisServers    []string            `env:"GUARD_REDIS_SERVERS"`
	Redis           redisguard.Settings `envPrefix:"GUARD_REDIS_" use:"stores"`
}

// Texts implements settings.Described.
func (*upstreams) Texts() settings.Texts {
	return settings.Texts{
		"GUARD_POSTGRES_SERVERS": {Meaning: `
			comma-separated names of further Postgres servers, such as archive. Each has settings of
			its own: GUARD_POSTGRES_ARCHIVE_LISTEN, _UPSTREAM, _ADMIN, _DATABASES, _MAX_DATABASES,
			_LEADERS and _ALLOW_PREPARED, with the meaning and the default of the setting
			without a name. All other settings are the same for all servers; limits count for each`},
		"GUARD_REDIS_SERVERS": {Meaning: `
			comma-separated names of further Redis servers, each with GUARD_REDIS_NAME_LISTEN,
			_UPSTREAM and _IDLE_TIMEOUT`},
	}
}

// labels names the protocols, and roles says who logs in where, for people.
func labels() string { return wordsOf(" and ", func(p protocol) string { return p.label }) }
func roles() string  { return wordsOf(", or ", func(p protocol) string { return p.role }) }

func wordsOf(between string, word func(protocol) string) string {
	var all []string
	for _, p := range protocols {
		all = append(all, word(p))
	}
	return strings.Join(all, between)
}

// logDrivers has the drivers of all protocols log here.
func logDrivers(log *slog.Logger) {
	for _, p := range protocols {
		if p.logTo != nil {
			p.logTo(log)
		}
	}
}
