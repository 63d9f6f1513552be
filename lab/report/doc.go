// Package report shows results to people: one HTML file for each run, which needs no network, with
// results.json beside it; the table on the terminal; and an index of runs.
package report
