package check

import (
	"time"

	"github.com/ringfence/ringfence/lab/history"
)

// presence checks I3: what was acknowledged is in the database, once; what was refused is not. An
// operation with an unknown outcome must only not be there twice. The databases are read at the
// end, so in a run that was not completed nothing counts as missing.
func (r *run) presence(f *findings, figures *Figures) {
	there := map[string]int{}
	for _, store := range r.stores() {
		for _, w := range r.rows[store] {
			if w.Kind != history.Evidence {
				continue
			}
			there[w.Op]++
			r.accounted(f, w, there[w.Op])
		}
	}
	for _, o := range r.ops {
		if r.ended && o.do == history.Write && o.ok() && there[o.id] == 0 {
			figures.Lost++
			r.missing(f, o)
		}
	}
}

// accounted judges one row, seen for the n-th time.
func (r *run) accounted(f *findings, w row, n int) {
	o := w.op
	switch {
	case o == nil:
		f.atRow("I3", w, "%s holds %s at place %d under token %s, and nobody sent it",
			w.Store, w.Op, w.Place, w.Token)
	case o.store != w.Store:
		f.atRow("I3", w, "%s holds %s, which was sent to %s", w.Store, w.Op, o.store)
	case n > 1:
		f.atRow("I3", w, "%s holds %s more than once: here at place %d", w.Store, w.Op, w.Place)
	case o.notCommitted():
		f.atRow("I3", w,
			"%s holds %s at place %d, but its writer was told that it was not done: %s, %q",
			w.Store, w.Op, w.Place, o.outcome, o.text)
	case w.Token != 0 && o.token != 0 && w.Token != o.token:
		f.atRow("I3", w, "%s holds %s at place %d under token %s, but it was sent under %s",
			w.Store, w.Op, w.Place, w.Token, o.token)
	}
}

// missing judges an acknowledged write that is not there.
func (r *run) missing(f *findings, o *op) {
	if r.mayBeLost(o) {
		return
	}
	text := "%s acknowledged %s under token %s to %s, and does not hold it"
	args := []any{o.store, o.id, o.token, o.process}
	if r.expect.MayLose > 0 {
		text += "; no fault hit it within %s after that"
		args = append(args, time.Duration(r.expect.MayLose))
	}
	f.atOp("I3", o, text, args...)
}

// mayBeLost reports whether the header allows the loss. A Redis that syncs its log every second
// loses its latest acknowledged writes when it is killed; a Postgres that is restored from a
// snapshot loses what it acknowledged since.
//
// The fault's Begin is written before the fault hits, and the write's Return after its answer. So
// everything counts that may have been answered between MayLose before the Begin and Settles after
// the end.
func (r *run) mayBeLost(o *op) bool {
	if r.expect.MayLose == 0 {
		return false
	}
	for _, t := range r.injected() {
		from := t.begin - int64(r.expect.MayLose)
		if t.hitsStore(storeOf(o)) && o.returned >= from && o.invoked <= t.end+int64(r.expect.Settles) {
			return true
		}
	}
	return false
}
