// Package pgstore fences the writes of a leader program to Postgres.
//
// Through a guard, every connection of a pool carries the token of one term:
//
//	pool, err := pgstore.NewPool(ctx, term, config) // a pgxpool.Config with the guard's address
//
// Without a guard, every transaction carries it:
//
//	// db is any pgxpool.Pool, also behind a pooler.
//	tx, err := pgstore.Begin(ctx, db, term.Claim(), pgx.TxOptions{})
//
// Either way a term begins when a Raiser (NewRaiser, in fence.Lead.Stores) raises the mark, which
// ends what older leaders have open. Without a guard a Raiser keeps its connection for further
// terms, until it is closed. What a deposed leader sends later is refused with fence.ErrStale and
// has no effect.
//
// The database needs the schema ringfence: an operator runs guard install.
package pgstore
