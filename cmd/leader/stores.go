package main

import (
	"context"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/settings"
	"github.com/ringfence/ringfence/store/postgres"
	"github.com/ringfence/ringfence/store/redis"
)

// openStore makes what raises the mark at a URL; the coordinator is asked where no guard stands before the database.
type openStore func(url string, c fence.Observer) fence.Raiser

// stores is every store there is, by the scheme of its URL in LEADER_STORES.
var stores = map[string]openStore{
	"postgres":   openPostgres,
	"postgresql": openPostgres,
	"redis":      openRedis,
}

func openPostgres(url string, c fence.Observer) fence.Raiser {
	return postgres.Raiser{URL: url, Coordinator: c}
}

func openRedis(url string, c fence.Observer) fence.Raiser {
	return redis.Raiser{URL: url, Coordinator: c}
}

// raisers are the stores of the settings.
func (p *program) raisers(s *session) []fence.Raiser {
	var all []fence.Raiser
	for _, u := range s.config.Stores {
		r := p.stores[u.Scheme()](u.Reveal(), s.coordinator)
		all = append(all, &namedStore{Raiser: r, url: u, timeout: s.config.RaiseTimeout})
	}
	return all
}

// namedStore bounds a raise in time and says in its errors which store it was.
type namedStore struct {
	fence.Raiser
	url     settings.URL
	timeout time.Duration
}

// Raise implements fence.Raiser. Its error is a *raiseError.
func (s *namedStore) Raise(ctx context.Context, claim fence.Claim) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, fmt.Errorf("no answer within LEADER_RAISE_TIMEOUT=%s", s.timeout))
	defer cancel()
	err := s.Raiser.Raise(ctx, claim)
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	return &raiseError{url: s.url, err: err}
}

// raiseError tells which store did not raise the mark. The mark may or may not be raised there.
type raiseError struct {
	url settings.URL
	err error
}

func (e *raiseError) Error() string { return e.url.Scrub(fmt.Sprintf("%s: %v", e.url, e.err)) }
func (e *raiseError) Unwrap() error { return e.err }
