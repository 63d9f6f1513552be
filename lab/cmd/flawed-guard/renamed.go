package main

import (
	"github.com/ringfence/ringfence/internal/guard"
	guardredis "github.com/ringfence/ringfence/internal/guard/redis"
	"github.com/ringfence/ringfence/internal/marks"
	redisstore "github.com/ringfence/ringfence/internal/marks/redis"
	"github.com/ringfence/ringfence/lab/flaw"
)

// trusting makes a guard that passes SCRIPT DEBUG under its other name. The store was opened without
// redisstore.Options.Commands, so it does not notice which command that is.
func trusting(db *redisstore.Store, a *marks.Admission) guard.Protocol {
	s := guardredis.Settings{TrustedCommands: []string{flaw.Script + "|DEBUG"}}
	return s.Serve(guard.Service{Opened: guard.Opened{Store: db, Admission: a}})
}
