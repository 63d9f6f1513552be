package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/refusal"
	"github.com/ringfence/ringfence/lab"
	"github.com/ringfence/ringfence/lab/history"
	pgstore "github.com/ringfence/ringfence/store/postgres"
	redisstore "github.com/ringfence/ringfence/store/redis"
)

// raiseMost bounds one raise: a candidate that cannot reach a store gives its place up to one that may.
const raiseMost = 5 * time.Second

// recordedRaiser records each raise as an operation.
type recordedRaiser struct {
	inner   fence.Raiser
	w       *worker
	store   string
	address func() (network, address string, err error)
	code    func(fence.Reason) string
}

// errNotAsked: the store cannot be reached at all. A raiser's own error cannot say that, for it may have tried twice.
var errNotAsked = errors.New("no connection can be opened, so nothing was asked")

// Raise implements fence.Raiser.
func (r *recordedRaiser) Raise(ctx context.Context, c fence.Claim) error {
	e := history.Event{
		Kind: history.Invoke, Process: r.w.c.Name + "/" + r.store, Op: r.w.op("m"), Do: history.Raise, Store: r.store, Token: c.Token,
	}
	r.w.say(e)
	within, cancel := context.WithTimeout(ctx, raiseMost)
	defer cancel()
	err := r.reach(within)
	if err == nil {
		err = r.inner.Raise(within, c)
	}
	said := raised(err, r.code)
	e.Kind, e.Outcome, e.Text = history.Return, said.outcome, said.text()
	r.w.say(e)
	return err
}

// reach opens a connection and closes it.
func (r *recordedRaiser) reach(ctx context.Context) error {
	network, address, err := r.address()
	if err != nil {
		return fmt.Errorf("%w: %w", errNotAsked, err)
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return fmt.Errorf("%w: %w", errNotAsked, err)
	}
	return conn.Close()
}

// raisers are of the stores that a leader raises the mark on, by the route that it writes on.
func (w *worker) raisers(coordinator fence.Observer) []fence.Raiser {
	if w.c.Route == lab.Direct {
		return nil
	}
	if w.c.Route != lab.Embedded {
		coordinator = nil // guards ask it
	}
	address := func() (string, string, error) {
		o, err := driver.ParseURL(w.c.Redis)
		if err != nil {
			return "", "", fmt.Errorf("LAB_REDIS: %w", err)
		}
		return o.Network, o.Addr, nil
	}
	return []fence.Raiser{
		w.raiserPG(coordinator),
		&recordedRaiser{redisstore.Raiser{URL: w.c.Redis, Coordinator: coordinator}, w, "redis", address, refusal.Word},
	}
}

func (w *worker) raiserPG(coordinator fence.Observer) fence.Raiser {
	url := cmp.Or(w.c.Raise, w.c.Postgres)
	address := func() (string, string, error) {
		cfg, err := pgconn.ParseConfig(url)
		if err != nil {
			return "", "", fmt.Errorf("LAB_RAISE or LAB_POSTGRES: %w", err)
		}
		network, address := pgconn.NetworkAddress(cfg.Host, cfg.Port)
		return network, address, nil
	}
	return &recordedRaiser{pgstore.Raiser{URL: url, Coordinator: coordinator}, w, "postgres", address, refusal.SQLState}
}

// raiserOf is the store's among the raisers.
func raiserOf(all []fence.Raiser, store string) fence.Raiser {
	for _, r := range all {
		if r, ok := r.(*recordedRaiser); ok && r.store == store {
			return r
		}
	}
	return nil
}
