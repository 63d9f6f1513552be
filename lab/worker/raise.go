package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/refusal"
	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/store/pgstore"
	"github.com/ringfence/ringfence/store/redisstore"
)

// raiseTime bounds one raise: a candidate that cannot reach a store gives up its place.
const raiseTime = 5 * time.Second

// recordedRaiser records each raise as an operation.
type recordedRaiser struct {
	inner interface {
		fence.Raiser
		Close()
	}
	w       *worker
	store   string
	address func() (network, address string, err error)
	code    func(fence.Reason) string
}

// errUnreachable says that the store cannot be reached, so there was no raise. An error of a raiser
// cannot prove that, because it may have tried twice.
var errUnreachable = errors.New("no connection can be opened, so nothing was sent")

// Raise implements fence.Raiser.
func (r *recordedRaiser) Raise(ctx context.Context, c fence.Claim) error {
	within, cancel := context.WithTimeout(ctx, raiseTime)
	defer cancel()
	return r.w.record(history.Event{
		Process: r.w.c.Name + "/" + r.store, Op: r.w.op("m"), Do: history.Raise, Store: r.store,
		Token: c.Token, Resource: otherThanUsual(c.Resource),
	}, func(string) result {
		err := r.reach(within)
		if err == nil {
			err = r.inner.Raise(within, c)
		}
		return raised(err, r.code)
	}).err
}

// otherThanUsual returns the resource as an event names it.
func otherThanUsual(r fence.Resource) fence.Resource {
	if r == scenario.Resource {
		return ""
	}
	return r
}

// reach opens a connection and closes it.
func (r *recordedRaiser) reach(ctx context.Context) error {
	network, address, err := r.address()
	if err != nil {
		return fmt.Errorf("%w: %w", errUnreachable, err)
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return fmt.Errorf("%w: %w", errUnreachable, err)
	}
	return conn.Close()
}

// raisers returns the raisers for a leader's stores, depending on its route; none if its agent
// raises the marks.
func (w *worker) raisers(coordinator elector.Observer) []fence.Raiser {
	if w.c.Route == scenario.Direct || w.c.Route == scenario.SQL || w.c.Agent != "" {
		return nil
	}
	if w.c.Route != scenario.Embedded && w.c.Raise == "" {
		coordinator = nil // the guards have it
	}
	address := func() (string, string, error) {
		o, err := redismarks.ParseURL(w.c.Redis)
		if err != nil {
			return "", "", fmt.Errorf("LAB_REDIS: %w", err)
		}
		return o.Network, o.Addr, nil
	}
	return []fence.Raiser{
		w.raiserPG(coordinator),
		&recordedRaiser{
			redisstore.NewRaiser(w.c.Redis, coordinator), w, "redis", address,
			refusal.Word,
		},
	}
}

func (w *worker) raiserPG(coordinator elector.Observer) fence.Raiser {
	url := cmp.Or(w.c.Raise, w.c.Postgres)
	address := func() (string, string, error) {
		cfg, err := pgconn.ParseConfig(url)
		if err != nil {
			return "", "", fmt.Errorf("LAB_RAISE or LAB_POSTGRES: %w", err)
		}
		network, address := pgconn.NetworkAddress(cfg.Host, cfg.Port)
		return network, address, nil
	}
	return &recordedRaiser{
		pgstore.NewRaiser(url, coordinator), w, "postgres", address,
		refusal.SQLState,
	}
}

// closeRaisers closes what the raisers keep open.
func closeRaisers(all []fence.Raiser) {
	for _, r := range all {
		if r, ok := r.(*recordedRaiser); ok {
			r.inner.Close()
		}
	}
}

// raiserOf returns the raiser for a store.
func raiserOf(all []fence.Raiser, store string) fence.Raiser {
	for _, r := range all {
		if r, ok := r.(*recordedRaiser); ok && r.store == store {
			return r
		}
	}
	return nil
}
