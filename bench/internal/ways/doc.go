// Package ways starts the ways to a database that the benchmarks compare: the direct connection, a
// guard as its real program, and the proxies that are installed.
//
//	stage, err := ways.StartPostgres(ctx, options)
//	defer stage.Close()
//	for _, way := range stage.Ways {
//		before := way.CPU()
//		…
//	}
//
// The guard has no coordinator, so a token is only a number. All sessions, through whichever way,
// have the same user.
package ways
