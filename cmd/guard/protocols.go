package main

import (
	"log/slog"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/guard/pgguard"
	"github.com/ringfence/ringfence/internal/guard/redisguard"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
)

// protocol is one kind of server that can be guarded.
type protocol struct {
	name  string
	first func(*config) guard.Upstream // the settings of the server without a name
	names func(*config) []string       // the names of further servers
	fresh func() guard.Upstream        // settings for one of them
	logTo func(*slog.Logger)           // for what its driver logs by itself; nil if it does not
}

// protocols is every protocol there is. A new one is an entry here, with two fields of config.
var protocols = []protocol{
	{
		"postgres",
		func(c *config) guard.Upstream { return &c.Postgres },
		func(c *config) []string { return c.PostgresServers },
		func() guard.Upstream { return &pgguard.Settings{} },
		nil,
	},
	{
		"redis",
		func(c *config) guard.Upstream { return &c.Redis },
		func(c *config) []string { return c.RedisServers },
		func() guard.Upstream { return &redisguard.Settings{} },
		redismarks.LogTo,
	},
}

// logDrivers has the drivers of all protocols log here.
func logDrivers(log *slog.Logger) {
	for _, p := range protocols {
		if p.logTo != nil {
			p.logTo(log)
		}
	}
}
