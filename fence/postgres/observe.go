package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/fence/internal/campaign"
)

// Issuer implements elector.Observer.
func (c *Coordinator) Issuer(ctx context.Context) (fence.Issuer, error) {
	issuer, _, err := c.Leaders(ctx)
	return issuer, err
}

// RenewIssuer implements elector.IssuerRenewer. Of several at once, one renews and all return what
// it has made.
func (c *Coordinator) RenewIssuer(ctx context.Context) (fence.Issuer, error) {
	before, err := c.Issuer(ctx)
	if err != nil {
		return "", err
	}
	return ask(ctx, c, "renew the issuer",
		func(ctx context.Context, conn *pgx.Conn) (fence.Issuer, error) {
			var issuer string
			err := row(ctx, conn, []any{&issuer}, "renew_issuer($1)", string(before))
			return fence.Issuer(issuer), err
		})
}

// Candidates implements elector.Observer.
func (c *Coordinator) Candidates(
	ctx context.Context, r fence.Resource,
) ([]elector.Candidate, error) {
	now, err := c.election(ctx, r)
	return now.queue, err
}

// election is an election at one moment.
type election struct {
	queue []elector.Candidate
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
				queue: make([]elector.Candidate, len(tokens)),
				wait:  time.Duration(wait * float64(time.Second)),
			}
			for i, token := range tokens {
				now.queue[i] = elector.Candidate{
					Token: fence.Token(token), ID: ids[i], Holder: holders[i], Ready: ready[i] && i == 0,
				}
			}
			return now, err
		})
}

// leadership is the issuer and the leaders at one moment.
type leadership struct {
	issuer  fence.Issuer
	leaders []elector.Candidate
}

// Leaders implements elector.Observer, in one round trip for any number of resources.
func (c *Coordinator) Leaders(
	ctx context.Context, rs ...fence.Resource,
) (fence.Issuer, []elector.Candidate, error) {
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
			now := leadership{fence.Issuer(issuer), make([]elector.Candidate, len(tokens))}
			for i, token := range tokens {
				now.leaders[i] = elector.Candidate{Token: fence.Token(token), ID: ids[i], Holder: holders[i]}
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
			_, err = conn.Exec(ctx, "select ringfence.depose($1, $2)", string(r), int64(t))
			return true, err
		})
}

// Watch implements elector.Observer. It hears at once of a new leader, of one that is ready, of
// candidates that are gone and of members of a group, and within 2 s of candidates that wait.
func (c *Coordinator) Watch(
	ctx context.Context, r fence.Resource, each func([]elector.Candidate) error,
) error {
	if _, err := fence.ParseResource(string(r)); err != nil {
		return err
	}
	tell := campaign.OnOther(each)
	all := func(string) bool { return true }
	return c.watch(ctx, "the election of "+string(r), electionChannel+string(r), all, func(
		ctx context.Context,
	) (wait time.Duration, err error) {
		now, err := c.election(ctx, r)
		if err != nil {
			return 0, err
		}
		wait = min(c.frame.Timeout/4, 2*time.Second)
		if now.wait > 0 { // a session in it may have expired then
			wait = max(min(wait, now.wait+time.Millisecond), c.tick())
		}
		return wait, tell(now.queue)
	})
}

// watch looks now and after each notice on a channel that concerns it. look returns how long it is
// until the next look in any case. Where notices do not arrive, that is a tick.
func (c *Coordinator) watch(
	ctx context.Context, what, channel string, concerns func(payload string) bool,
	look func(context.Context) (time.Duration, error),
) error {
	changed := make(chan struct{}, 1)
	var notices *subscription
	defer func() {
		if notices != nil {
			notices.stop()
		}
	}()
	return c.frame.Repeat(ctx, what, func(ctx context.Context) error {
		if notices == nil {
			notices = c.listener.subscribe(channel, func(payload string) {
				if payload == "" || concerns(payload) {
					kick(changed)
				}
			})
		}
		wait, err := look(ctx)
		if err != nil {
			return err
		}
		if !notices.listening() {
			wait = c.tick()
		}
		next := time.NewTimer(wait)
		defer next.Stop()
		select {
		case <-next.C:
		case <-changed:
		case <-ctx.Done():
		}
		return nil
	})
}
