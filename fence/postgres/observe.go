package postgres

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/backoff"
)

// Candidates implements fence.Observer.
func (c *Coordinator) Candidates(ctx context.Context, r fence.Resource) ([]fence.Candidate, error) {
	now, err := c.election(ctx, r)
	return now.queue, err
}

// election is an election at one moment.
type election struct {
	queue []fence.Candidate
	wait  time.Duration // until the next session in it expires; 0: it is empty
}

func (c *Coordinator) election(ctx context.Context, r fence.Resource) (election, error) {
	if _, err := fence.ParseResource(string(r)); err != nil {
		return election{}, err
	}
	return ask(ctx, c, "list the candidates of "+string(r),
		func(ctx context.Context, conn *pgx.Conn) (election, error) {
			var tokens []int64
			var ids, holders []string
			var ready []bool
			var wait float64
			into := []any{&tokens, &ids, &holders, &ready, &wait}
			err := row(ctx, conn, into, "candidates($1)", string(r))
			now := election{
				queue: make([]fence.Candidate, len(tokens)),
				wait:  time.Duration(wait * float64(time.Second)),
			}
			for i, token := range tokens {
				now.queue[i] = fence.Candidate{
					Token: fence.Token(token), ID: ids[i], Holder: holders[i], Ready: ready[i] && i == 0,
				}
			}
			return now, err
		})
}

// leadership is the issuer and the leaders at one moment.
type leadership struct {
	issuer  fence.Issuer
	leaders []fence.Candidate
}

// Leaders implements fence.Observer, in one round trip for any number of resources.
func (c *Coordinator) Leaders(
	ctx context.Context, rs ...fence.Resource,
) (fence.Issuer, []fence.Candidate, error) {
	names := make([]string, len(rs))
	for i, r := range rs {
		if _, err := fence.ParseResource(string(r)); err != nil {
			return "", nil, err
		}
		names[i] = string(r)
	}
	now, err := ask(ctx, c, "ask who leads",
		func(ctx context.Context, conn *pgx.Conn) (leadership, error) {
			var issuer string
			var tokens []int64
			var ids, holders []string
			err := row(ctx, conn, []any{&issuer, &tokens, &ids, &holders}, "leaders($1)", names)
			now := leadership{fence.Issuer(issuer), make([]fence.Candidate, len(tokens))}
			for i, token := range tokens {
				now.leaders[i] = fence.Candidate{Token: fence.Token(token), ID: ids[i], Holder: holders[i]}
			}
			return now, err
		})
	return now.issuer, now.leaders, err
}

// Depose implements fence.Elector.
func (c *Coordinator) Depose(ctx context.Context, r fence.Resource, t fence.Token) (bool, error) {
	if _, err := fence.ParseResource(string(r)); err != nil {
		return false, err
	}
	sent := false // a deletion; if it has no reply and the row is gone, it was ours
	return ask(ctx, c, "depose "+t.String(),
		func(ctx context.Context, conn *pgx.Conn) (bool, error) {
			there := false
			err := row(ctx, conn, []any{&there}, "takes_part($1, $2)", string(r), int64(t))
			if err != nil || !there {
				return sent, err
			}
			sent = true
			_, err = conn.Exec(ctx, "select ringfence_elections.depose($1, $2)", string(r), int64(t))
			return true, err
		})
}

// Watch implements fence.Observer. It hears at once of a new leader, of one that is ready, of
// candidates that are gone and of members of a group, and within 2 s of candidates that wait.
func (c *Coordinator) Watch(
	ctx context.Context, r fence.Resource, each func([]fence.Candidate) error,
) error {
	if _, err := fence.ParseResource(string(r)); err != nil {
		return err
	}
	if err := c.begin(); err != nil {
		return err
	}
	defer c.work.Done()
	ctx, stop := c.withClose(ctx)
	defer stop()
	changed := make(chan struct{}, 1)
	notices := c.listener.subscribe(electionChannel+string(r), func(string) { kick(changed) })
	defer notices.stop()
	var told []fence.Candidate
	for first, failures := true, 0; ctx.Err() == nil; {
		now, err := c.election(ctx, r)
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, ErrUnreachable):
			failures++
			c.log.Warn("cannot watch the election", "resource", r, "error", err)
			backoff.Pause(ctx, backoff.After(failures, backoff.Least, backoff.Most))
		case err != nil:
			return err
		default:
			if first || !slices.Equal(now.queue, told) {
				if err := each(slices.Clone(now.queue)); err != nil {
					return err
				}
			}
			first, told, failures = false, now.queue, 0
			c.await(ctx, notices, changed, now.wait)
		}
	}
	return context.Cause(ctx)
}

// await waits until it is time to look at an election again: after a notice, when a session in it
// may have expired, or after a while. Where notices do not arrive, after a tick.
func (c *Coordinator) await(
	ctx context.Context, notices *subscription, changed <-chan struct{}, expiry time.Duration,
) {
	wait := c.tick()
	if notices.listening() {
		wait = min(c.timeout/4, 2*time.Second)
		if expiry > 0 {
			wait = max(min(wait, expiry+time.Millisecond), c.tick())
		}
	}
	next := time.NewTimer(wait)
	defer next.Stop()
	select {
	case <-next.C:
	case <-changed:
	case <-ctx.Done():
	}
}
