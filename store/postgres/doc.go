// Package postgres is Postgres as leader code sees it: what a program that leads puts between itself and the database so
// that its writes are fenced.
//
// Through a guard, every connection of a pool carries the token of one term:
//
//	pool, err := postgres.Pool(ctx, term, config) // a pgxpool.Config with the guard's address
//
// Straight to the database, every transaction carries it:
//
//	tx, err := postgres.Begin(ctx, pool, term.Claim(), pgx.TxOptions{}) // any pgxpool.Pool, also behind a pooler
//
// Either way a term begins with a raise of the mark, which ends what older leaders have open (NewRaiser, in
// fence.Lead.Stores), and what a deposed leader sends later is refused with fence.ErrStale and leaves nothing behind.
//
// The database needs the schema ringfence: an operator runs guard install.
package postgres
