// Package flaw has the bugs that the lab seeds to see that it would catch them. They are made from the product's own
// parts, wired wrongly or wrapped, in programs that only the lab builds: no setting of guard or leader leads here.
package flaw
