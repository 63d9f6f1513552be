package check

import (
	"github.com/ringfence/ringfence/fence"
)

// commitOrder is I1: in the order in which a store committed, tokens never go down. The order is the database's own, so no
// clock and no late answer can make a violation of nothing, or hide one.
//
// What the session carried, as the database knows it, has to be what the writer believed: a pool that keeps connections of
// an earlier term writes under another token than it says, and that is found here even if the order is right.
func (r *run) commitOrder(f *findings, figures *Figures) {
	for _, store := range r.stores() {
		rows := r.rows[store]
		figures.StaleAccepted += r.rising(f, rows, "token", func(w row) fence.Token { return w.Token })
		r.rising(f, rows, "session's token", func(w row) fence.Token {
			if w.Carried == w.Token {
				return 0 // said already
			}
			return w.Carried
		})
		for _, w := range rows {
			if w.Carried != 0 && w.Token != 0 && w.Carried != w.Token {
				f.atRow("I1", w, "%s: %s was written by a session under token %s while its writer acted under %s: a connection of another term",
					store, w.name(), w.Carried, w.Token)
			}
		}
	}
}

// rising reports the rows that are behind a newer token, and counts them. Token 0 is not known.
func (r *run) rising(f *findings, rows []row, what string, token func(row) fence.Token) int {
	behind := 0
	var top age
	var topRow row
	for _, w := range rows {
		t := token(w)
		if t == 0 {
			continue
		}
		a := r.ageOfRow(w, t, top)
		if top.Newer(a) {
			behind++
			f.atRow("I1", w, "%s: %s was committed at place %d under %s %s, behind %s at place %d under the newer %s",
				w.Store, w.name(), w.Place, what, t, topRow.name(), topRow.Place, top.Token)
			continue
		}
		top, topRow = a, w
	}
	return behind
}

// ageOfRow dates a token in a row: by its operation, where that was sent under it.
func (r *run) ageOfRow(w row, token fence.Token, before age) age {
	if w.op != nil && w.op.token == token {
		return w.op.age
	}
	return r.ages.After(token, before)
}

// name is the operation's, or the step's.
func (w row) name() string {
	if w.Op != "" {
		return w.Op
	}
	return w.Key
}
