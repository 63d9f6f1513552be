package check

import (
	"github.com/ringfence/ringfence/fence"
)

// commitOrder checks I1: in the order in which a store committed, tokens never go down. The order
// is the database's own, so no clock and no late answer can fake a violation or hide one.
//
// The token that the session carried, according to the database, has to be the one that the writer
// believed. A connection pool that keeps connections of an earlier term writes under another token
// than it says, and this finds it even if the order is right.
func (r *run) commitOrder(f *findings, figures *Figures) {
	for _, store := range r.stores() {
		rows := r.rows[store]
		byWriter := func(w row) fence.Token { return w.Token }
		figures.StaleAccepted += r.neverDown(f, rows, "token", byWriter)
		r.neverDown(f, rows, "session's token", func(w row) fence.Token {
			if w.Carried == w.Token {
				return 0 // reported already
			}
			return w.Carried
		})
		for _, w := range rows {
			if w.Carried != 0 && w.Token != 0 && w.Carried != w.Token {
				f.atRow("I1", w, "%s: %s was written by a session under token %s, while its "+
					"writer acted under %s: a connection of another term",
					store, w.name(), w.Carried, w.Token)
			}
		}
	}
}

// neverDown reports the rows that come after a newer token, and counts them. Token 0 is not known.
func (r *run) neverDown(
	f *findings, rows []row, what string, token func(row) fence.Token,
) (behind int) {
	var newest age
	var newestRow row
	for _, w := range rows {
		t := token(w)
		if t == 0 {
			continue
		}
		a := r.ageOfRow(w, t, newest)
		if newest.Newer(a) {
			behind++
			f.atRow("I1", w, "%s: %s was committed at place %d under %s %s, behind %s at place %d "+
				"under the newer %s", w.Store, w.name(), w.Place, what, t,
				newestRow.name(), newestRow.Place, newest.Token)
			continue
		}
		newest, newestRow = a, w
	}
	return behind
}

// ageOfRow returns the age of a token in a row: that of the operation, if it was sent under it.
func (r *run) ageOfRow(w row, token fence.Token, before age) age {
	if w.op != nil && w.op.token == token {
		return w.op.age
	}
	return r.terms.AgeAfter(token, before)
}

// name returns the name of the operation, or of the step.
func (w row) name() string {
	if w.Op != "" {
		return w.Op
	}
	return w.Key
}
