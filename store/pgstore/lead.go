package pgstore

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/fence"
)

// Lead works on one database as the leader of a resource, through the guard at url. For each term
// it raises the mark, opens a pool whose connections carry the term's token and end with it, calls
// work, and closes the pool. The context of work ends with the term. url may have the options of
// pgxpool.ParseConfig, and those of NewRaiser.
//
// Lead stands for election until work is done, as Lead.Repeat of package fence does, and returns
// the same errors. l.Stores are further stores. At a database without a guard it returns a
// *fence.SetupError.
func Lead(
	ctx context.Context, l fence.Lead, url string,
	work func(ctx context.Context, pool *pgxpool.Pool) error,
) error {
	cfg, err := ParseConfig(url)
	if err != nil {
		return err
	}
	raiser := NewRaiser(url, nil)
	defer raiser.Close()
	l.Stores = append(slices.Clone(l.Stores), raiser)
	return l.Repeat(ctx, func(ctx context.Context, term *fence.Term) error {
		pool, err := NewPool(ctx, term, cfg)
		if err != nil {
			return err
		}
		defer pool.Close()
		return work(ctx, pool)
	})
}
