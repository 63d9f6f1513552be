package jobs

import (
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/documents"
	"github.com/ringfence/ringfence/fence"
)

// A job that was never assigned has left nothing.
func TestOnlyAJobThatHasHadAResourceIsCleanedUpAfter(t *testing.T) {
	for resource, want := range map[fence.Resource]bool{"": false, "job_g_q7f3m2ab_1": true} {
		r := record{Status: Status{ID: newID(time.Now()), Resource: resource, State: Cancelled, CleanUp: "sweep"}}
		submitted := false
		for _, w := range layoutOf("g").forget(r, time.Now()) {
			submitted = submitted || w.Kind == documents.KindPut && strings.Contains(w.Path, "/waiting/")
		}
		if submitted != want {
			t.Errorf("resource %q: a clean-up is submitted: %v", resource, submitted)
		}
	}
}
