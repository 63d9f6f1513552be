// Package report holds what the benchmarks have measured, and prints it: as a table, as JSON, and
// as a plot.
//
//	r := report.New("postgres", options)
//	row := r.Row(report.Row{Name: "select c=8", Unit: "tps", Bar: &report.Bar{
//		Way: "guard", Against: "pgbouncer", Limit: 1}})
//	for round := range options.Rounds {
//		for _, way := range rounds.Turn(ways, round) {
//			row.Add(way, measured)
//		}
//	}
//	return r, nil
//
// A way is one of the things that a row compares, such as "direct" or "guard". A ratio above 1 is
// always better, whether a row counts speed or time.
package report
