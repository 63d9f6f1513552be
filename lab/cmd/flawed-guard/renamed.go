package main

import (
	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/guard/redisguard"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/lab/flaw"
)

// trusting makes a guard that passes SCRIPT DEBUG under its other name. The store was opened
// without redisstore.Options.Commands, so it does not notice which command that is.
func trusting(db *redismarks.Store, a *marks.Admission) guard.Protocol {
	s := redisguard.Settings{TrustedCommands: []string{flaw.Script + "|DEBUG"}}
	return s.Serve(guard.Service{Opened: guard.Opened{Store: db, Admission: a}})
}
