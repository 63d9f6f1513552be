package records

import (
	"encoding/json"
	"path"

	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/jobs/job"
)

// notKept is what the error of a status says whose result was dropped.
const notKept = "the result is not kept: with it the status is too large for the coordinator"

// dropResult drops the result of the status that these writes replace. It is false if there is
// none.
func (c Changes) dropResult(writes []documents.Write) bool {
	for i, w := range writes {
		var s job.Status
		if w.Kind != documents.KindPut || path.Dir(w.Path) != c.paths.Statuses() ||
			json.Unmarshal(w.Data, &s) != nil || len(s.Result) == 0 {
			continue
		}
		s.Result, s.Error = nil, alsoSay(s.Error, notKept)
		writes[i].Data = Encode(s)
		return true
	}
	return false
}

// alsoSay adds a note to the error of a status. Either may be empty.
func alsoSay(text, note string) string {
	if text == "" || note == "" {
		return text + note
	}
	return shortenTo(text, job.MaxError-len("; "+note)) + "; " + note
}
