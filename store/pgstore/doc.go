// Package pgstore fences the writes of a leader program to Postgres.
//
// Lead works as the leader, with a pool for each term that it wins:
//
//	lead := fence.Lead{Elector: elections, Resource: "orders", Holder: host}
//	err := pgstore.Lead(ctx, lead, "postgres://app@guard:6432/shop",
//		func(ctx context.Context, pool *pgxpool.Pool) error { … })
//
// Every connection of such a pool (NewPool) carries the token of the term, through a guard. Without
// a guard, every transaction carries it:
//
//	// db is any pgxpool.Pool, also behind a pooler; raiser is a NewRaiser.
//	err := pgstore.BeginFunc(ctx, db, raiser, term.Claim(), pgx.TxOptions{},
//		func(tx pgx.Tx) error { … })
//
// Either way a term begins when a Raiser (NewRaiser, in fence.Lead.Stores) raises the mark, which
// ends what older leaders have open. Without a guard a Raiser keeps its connection for further
// terms, until it is closed. What a deposed leader sends later is refused with fence.ErrStale and
// has no effect.
//
// The database needs the schema ringfence: an operator runs guard install.
package pgstore
