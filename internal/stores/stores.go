// Package stores makes what raises the mark at a URL. The table All is the one place where leader
// learns which stores there are: a new one is a line in it.
package stores

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/settings"
	"github.com/ringfence/ringfence/store/postgres"
	"github.com/ringfence/ringfence/store/redis"
)

// Open makes what raises the mark at a URL; the coordinator is asked where no guard stands before
// the database.
type Open func(url string, c fence.Observer) fence.Raiser

// Table maps the scheme of a URL to what opens it.
type Table map[string]Open

// All is every store there is, by the scheme of its URL in LEADER_STORES.
var All = Table{
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

// Schemes lists the schemes there are, sorted.
func (t Table) Schemes() []string { return slices.Sorted(maps.Keys(t)) }

// Raisers are the stores at these URLs, whose schemes are in the table. Each raise is bounded in
// time, and its error is a *Error.
func (t Table) Raisers(urls settings.URLs, c fence.Observer, timeout time.Duration) []fence.Raiser {
	var all []fence.Raiser
	for _, u := range urls {
		all = append(all, &named{Raiser: t[u.Scheme()](u.Reveal(), c), url: u, timeout: timeout})
	}
	return all
}

// named bounds a raise in time and says in its errors which store it was.
type named struct {
	fence.Raiser
	url     settings.URL
	timeout time.Duration
}

// Raise implements fence.Raiser. Its error is a *Error.
func (s *named) Raise(ctx context.Context, claim fence.Claim) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, fmt.Errorf("no answer within LEADER_RAISE_TIMEOUT=%s", s.timeout))
	defer cancel()
	err := s.Raiser.Raise(ctx, claim)
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	return &Error{URL: s.url, Err: err}
}

// Error tells which store did not raise the mark. The mark may or may not be raised there.
type Error struct {
	URL settings.URL
	Err error
}

// Error implements error. It has no secret in it.
func (e *Error) Error() string { return e.URL.Scrub(fmt.Sprintf("%s: %v", e.URL, e.Err)) }

// Unwrap is for errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Err }
