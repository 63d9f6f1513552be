// Package queueview is for those who operate a group of workers: it shows its jobs and workers, and
// why a job waits. Programs that submit and run jobs need only package jobs.
package queueview

import (
	"sync/atomic"

	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/jobs/internal/records"
)

// View is a queue with what its operators see. Its methods may be called from any goroutine. It
// remembers how jobs have ended, so keep it for the next look.
type View struct {
	*jobs.Queue
	store   *records.Store
	endings atomic.Pointer[map[string]ending] // as Overview has read them last; nobody changes the map
}

// New returns a view of a group's jobs. The name is a group's (group.New). Nothing is sent.
func New(c documents.Coordinator, name string) (*View, error) {
	q, err := jobs.New(c, name)
	if err != nil {
		return nil, err
	}
	s, err := records.Open(c, name)
	if err != nil {
		return nil, err
	}
	return &View{Queue: q, store: s}, nil
}
