package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/fence"
	terms "github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/lab/flaw"
	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/scenario"
)

// sqlElector holds elections by calls of ringfence.campaign (docs/sql.md), through a pooler. Its
// calls come one after the other: those of a term end before the term is given up.
type sqlElector struct {
	deposesNobody
	w    *worker
	pool *pgxpool.Pool

	token fence.Token // of the candidate, as the last answer had it
	since int64       // the start of the first call that may have raised the mark to it; 0: none has
	ready fence.Token // the last term that was ready
}

// leadBySQL stands for election, and keeps the ledger in Postgres, until ctx ends.
func (w *worker) leadBySQL(ctx context.Context) error {
	open, closeSockets := context.WithCancel(context.Background())
	defer closeSockets()
	pool, err := w.pool("LAB_COORDINATOR", w.c.Coordinator, open)
	if err != nil {
		return err
	}
	defer func() { closeSockets(); pool.Close() }()
	defer w.watches.Wait()
	return w.ledger(ctx, nil, &recordingElector{Elector: &sqlElector{w: w, pool: pool}, w: w})
}

// place is what campaign answers about one resource.
type place struct {
	token                 int64
	issuer, pass, refused string
	ready                 bool
	ending                int
}

const campaign = `select token, issuer, coalesce(pass, ''), ready, ending, coalesce(refused, '')
	from ringfence.campaign($1::text, $2::text, $3::text::interval)`

// call calls campaign once, and records a raise of the mark once it is known.
func (e *sqlElector) call(ctx context.Context) (p place, err error) {
	ctx, cancel := context.WithTimeout(ctx, e.w.c.Deadline)
	defer cancel()
	if e.since == 0 {
		e.since = history.Now()
	}
	err = e.pool.QueryRow(ctx, campaign, string(scenario.Resource), e.holder(), e.ttl().String()).
		Scan(&p.token, &p.issuer, &p.pass, &p.ready, &p.ending, &p.refused)
	if err != nil {
		return p, err
	}
	e.w.reached.Store(true)
	token := fence.Token(p.token)
	if token != e.token && e.token != e.ready { // the candidate before may have raised the mark
		e.raised(history.Unknown)
	}
	e.token = token
	if p.ready && e.ready != token {
		e.raised(history.OK)
		e.ready = token
	}
	if p.ready || p.pass == "" {
		e.since = 0
	}
	return p, nil
}

// raised records the raise of the mark to the candidate's token. Nobody knew the token when it
// began.
func (e *sqlElector) raised(o history.Outcome) {
	raise := history.Event{
		At: e.since, Kind: history.Invoke, Process: e.w.c.Name + "/election", Op: e.w.op("m"),
		Do: history.Raise, Store: "postgres", Token: e.token,
	}
	e.w.emit(raise)
	raise.At, raise.Kind, raise.Outcome = 0, history.Return, o
	e.w.emit(raise)
}

// holder is a name that no other process has, also none that was started before.
func (e *sqlElector) holder() string { return e.w.c.Name + "-" + e.w.id }

// ttl is at least what campaign takes.
func (e *sqlElector) ttl() time.Duration { return max(e.w.c.Session, time.Second) }

// Campaign implements fence.Elector.
func (e *sqlElector) Campaign(
	ctx context.Context, r fence.Resource, holder string,
) (*fence.Term, error) {
	for ctx.Err() == nil {
		start := time.Now()
		p, err := e.call(ctx)
		wait := 10 * time.Millisecond
		switch {
		case err != nil:
			e.w.note("campaign: %v", err)
			wait = retry
		case p.refused != "":
			e.w.note("campaign: refused: %s", p.refused)
			wait = retry
		case p.pass == "":
			wait = e.ttl() / 3
		case p.ready:
			claim := fence.Claim{
				Resource: r, Token: fence.Token(p.token), Issuer: fence.Issuer(p.issuer), Holder: holder,
			}
			claim.Candidate = candidateIn(p.pass)
			return e.begin(ctx, claim, start)
		case p.ending > 0:
			e.endPrepared(ctx)
		}
		pause(ctx, wait)
	}
	return nil, context.Cause(ctx)
}

// endPrepared rolls back what leaders before have prepared: nobody else does, and the term waits
// for it.
func (e *sqlElector) endPrepared(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, e.w.c.Deadline)
	defer cancel()
	var gids []string
	err := e.pool.QueryRow(ctx,
		"select coalesce(array_agg(gid), '{}') from pg_prepared_xacts").Scan(&gids)
	for _, gid := range gids {
		if _, failed := e.pool.Exec(ctx, "rollback prepared '"+gid+"'"); failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		e.w.note("%s was prepared, and is rolled back", gid)
	}
	if err != nil {
		e.w.note("prepared transactions: %v", err)
	}
}

// begin begins a term, and renews its lease until it is lost.
func (e *sqlElector) begin(
	ctx context.Context, c fence.Claim, start time.Time,
) (*fence.Term, error) {
	if e.w.c.Flaw == flaw.ByHand {
		if _, err := e.pool.Exec(ctx, "update lease set token = $1 where token < $1",
			int64(c.Token)); err != nil {
			return nil, err
		}
	}
	k := &sqlTerm{e: e, claim: c}
	term, keeper := terms.NewTerm(c, start, e.ttl(), k)
	renewing, cancel := context.WithCancel(term.Context())
	k.cancel = cancel
	k.renewing.Go(func() { k.renew(renewing, keeper) })
	return term, nil
}

// sqlTerm is the database's side of a term.
type sqlTerm struct {
	e        *sqlElector
	claim    fence.Claim
	cancel   context.CancelFunc
	renewing sync.WaitGroup
}

func (k *sqlTerm) renew(ctx context.Context, keeper *terms.Keeper) {
	for pause(ctx, k.e.ttl()/3); ctx.Err() == nil; pause(ctx, k.e.ttl()/3) {
		start := time.Now()
		p, err := k.e.call(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			k.e.w.note("renew: %v", err)
		case err == nil && p.token != int64(k.claim.Token):
			keeper.Lose(fence.ErrDeposed)
			return
		case err == nil:
			keeper.Confirm(start)
		}
	}
}

// Acknowledge implements terms.Backing. There is nothing to publish: campaign has said that it is
// ready.
func (k *sqlTerm) Acknowledge(context.Context) error { return nil }

// Release implements terms.Backing.
func (k *sqlTerm) Release(ctx context.Context) error {
	k.cancel()
	k.renewing.Wait()
	_, err := k.e.pool.Exec(ctx, "select ringfence.leave($1)", pass(k.claim))
	return err
}

// candidateIn returns the candidate that a pass names: its fourth part.
func candidateIn(pass string) string {
	parts := strings.Split(pass, " ")
	return parts[min(3, len(parts)-1)]
}

// pass is what enter takes.
func pass(c fence.Claim) string {
	return fmt.Sprintf("%s %d %s %s", c.Resource, int64(c.Token), c.Issuer, c.Candidate)
}
