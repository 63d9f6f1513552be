package check

import (
	"time"

	"github.com/ringfence/ringfence/lab/history"
)

// presence is I3: what was acknowledged is in the database, once; what was refused is not. Of what has an unknown outcome
// nothing is demanded, but that it is not there twice. The databases are asked at the end: of a run that did not come to its
// end nothing is missing.
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

// accounted judges one row that is there, for the n-th time.
func (r *run) accounted(f *findings, w row, n int) {
	o := w.op
	switch {
	case o == nil:
		f.atRow("I3", w, "%s holds %s at place %d under token %s, and nobody sent it", w.Store, w.Op, w.Place, w.Token)
	case o.store != w.Store:
		f.atRow("I3", w, "%s holds %s, which was sent to %s", w.Store, w.Op, o.store)
	case n > 1:
		f.atRow("I3", w, "%s holds %s more than once: here at place %d", w.Store, w.Op, w.Place)
	case o.nothingLanded():
		f.atRow("I3", w, "%s holds %s at place %d, and its writer was told that it was not done: %s, %q",
			w.Store, w.Op, w.Place, o.outcome, o.text)
	case w.Token != 0 && o.token != 0 && w.Token != o.token:
		f.atRow("I3", w, "%s holds %s at place %d under token %s, and it was sent under %s", w.Store, w.Op, w.Place, w.Token, o.token)
	}
}

// missing judges an acknowledged write that is not there.
func (r *run) missing(f *findings, o *op) {
	if r.mayBeLost(o) {
		return
	}
	text := "%s acknowledged %s under token %s to %s, and does not hold it"
	if r.expect.MayLose > 0 {
		f.atOp("I3", o, text+"; no fault hit it within %s after that", o.store, o.id, o.token, o.process, time.Duration(r.expect.MayLose))
		return
	}
	f.atOp("I3", o, text, o.store, o.id, o.token, o.process)
}

// mayBeLost tells that the header allows for the loss: a Redis that writes its log to disk every second loses, when it is
// killed, what it acknowledged last; a Postgres that is set back loses what it acknowledged since. The fault's Begin is written before the blow falls, and the write's Return after
// its answer, so everything that may have been answered from MayLose before Begin until End counts.
func (r *run) mayBeLost(o *op) bool {
	if r.expect.MayLose == 0 {
		return false
	}
	for _, t := range r.done() {
		if t.hits(o.store) && o.returned >= t.begin-int64(r.expect.MayLose) && o.invoked <= t.end {
			return true
		}
	}
	return false
}
