// Package report makes what people look at: one HTML file for each run, which needs no network, results.json beside it,
// the table on the terminal, and an index of runs.
package report
