package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"path"

	"github.com/ringfence/ringfence/fence/documents"
)

// notKept is what the error of a status says whose result was dropped.
const notKept = "the result is not kept: with it the status is too large for the coordinator"

// change makes a change of one job. If that is too large for the coordinator, its status loses the
// result: the job goes on, and holds up nobody. What is left is about as large as what was
// submitted.
func (q *Queue) change(ctx context.Context, c documents.Change) ([]int64, error) {
	versions, err := q.docs.Change(ctx, c)
	if errors.Is(err, documents.ErrTooLarge) && q.changes.dropResult(c.Writes) {
		return q.docs.Change(ctx, c)
	}
	return versions, err
}

// dropResult drops the result of the status that these writes replace. It is false if there is
// none.
func (c changes) dropResult(writes []documents.Write) bool {
	for i, w := range writes {
		var s Status
		if w.Kind != documents.KindPut || path.Dir(w.Path) != c.paths.statuses() ||
			json.Unmarshal(w.Data, &s) != nil || len(s.Result) == 0 {
			continue
		}
		s.Result, s.Error = nil, alsoSay(s.Error, notKept)
		writes[i].Data = encode(s)
		return true
	}
	return false
}

// alsoSay adds a note to the error of a status. Either may be empty.
func alsoSay(text, note string) string {
	if text == "" || note == "" {
		return text + note
	}
	return shortenTo(text, MaxError-len("; "+note)) + "; " + note
}
