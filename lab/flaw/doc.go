// Package flaw has the bugs that the lab seeds to test that it catches them. They are made of the
// product's own parts, wired wrongly or wrapped, in programs that only the lab builds. No setting
// of guard or leader enables them.
package flaw
