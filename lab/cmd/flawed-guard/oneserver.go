package main

import (
	"context"

	"github.com/ringfence/ringfence/internal/guard/redisguard"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
)

// unwatched makes the watches of a guard notice nothing: a server counts as the primary for good.
func unwatched(real *redismarks.Store) func(context.Context) (redisguard.Watch, error) {
	return func(ctx context.Context) (redisguard.Watch, error) {
		w, err := real.Watch(ctx)
		return blind{w}, err
	}
}

type blind struct{ redisguard.Watch }

func (blind) Prove(context.Context) error           { return nil }
func (blind) Lost() <-chan struct{}                 { return nil }
func (blind) Demoted(context.Context) (bool, error) { return false, nil }
