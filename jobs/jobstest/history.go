package jobstest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/jobs/job"
)

// history is all changes of the statuses of jobs, whoever made them. Each names the version before
// it, so the versions give their order. A change whose reply was lost is missing, and what follows
// it is not checked.
type history struct {
	mu      sync.Mutex
	changes map[job.ID]map[int64]step // by the version before
}

// step is a change of a job's status.
type step struct {
	change documents.Change
	status job.Status // after it; zero if the status was deleted
	after  int64      // its version
}

func newHistory() *history {
	return &history{changes: map[job.ID]map[int64]step{}}
}

// records returns a client whose changes are recorded.
func (h *history) records(c documents.Coordinator) documents.Coordinator {
	return recorded{c, h}
}

type recorded struct {
	documents.Coordinator
	h *history
}

// Documents implements documents.Coordinator.
func (r recorded) Documents() documents.Store {
	return recordedStore{r.Coordinator.Documents(), r.h}
}

type recordedStore struct {
	documents.Store
	h *history
}

// Change implements documents.Store.
func (r recordedStore) Change(ctx context.Context, c documents.Change) ([]int64, error) {
	versions, err := r.Store.Change(ctx, c)
	if err == nil {
		r.h.note(c, versions)
	}
	return versions, err
}

// note records a change.
func (h *history) note(c documents.Change, versions []int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, w := range c.Writes {
		if !strings.HasSuffix(path.Dir(w.Path), "/statuses") || w.Kind == documents.KindCheck {
			continue
		}
		id, s := job.ID(path.Base(w.Path)), step{change: c}
		if w.Kind == documents.KindPut && json.Unmarshal(w.Data, &s.status) != nil {
			s.status.State = "not JSON"
		}
		if h.changes[id] == nil {
			h.changes[id] = map[int64]step{}
		}
		s.after = versions[i]
		h.changes[id][w.Version] = s
	}
}

// check checks the life of every job, and returns how many steps it has checked.
func (h *history) check(t testing.TB) (checked int) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, changes := range h.changes {
		var last job.Status
		version := int64(0)
		for {
			next, made := changes[version]
			if !made {
				break
			}
			if err := allowed(id, last, next); err != nil {
				t.Errorf("job %s: from %+v\nto %+v\nby %+v:\n%v", id, last, next.status, next.change, err)
			}
			checked++
			last, version = next.status, next.after
			if version == 0 {
				break
			}
		}
	}
	return checked
}

// held reports whether a step only pauses a job, resumes it, or has it run earlier. Anybody may
// make it.
func held(old, now job.Status) bool {
	if old.State != now.State || now.State == "" || now.State.Finished() {
		return false
	}
	now.Paused = old.Paused
	if now.State == job.Waiting {
		now.Due = old.Due
	}
	return reflect.DeepEqual(old, now)
}

// arrows are the arrows between the states of a job (job.State). "" is no job.
var arrows = map[job.State][]job.State{
	"":            {job.Waiting},
	job.Waiting:   {job.Assigned, job.Cancelled},
	job.Assigned:  {job.Running, job.Waiting, job.Failed, job.Cancelled},
	job.Running:   {job.Running, job.Waiting, job.Done, job.Failed, job.Cancelled},
	job.Done:      {""},
	job.Failed:    {job.Waiting, ""},
	job.Cancelled: {job.Waiting, ""},
}

// allowed says what is wrong with a step, or nil.
func allowed(id job.ID, old job.Status, s step) error {
	now := s.status
	if held(old, now) {
		return s.places(id, old)
	}
	attempt := old.Attempt
	if now.State == job.Assigned {
		attempt++
	}
	worker := now.State == job.Running || now.State == job.Done || now.Failures > old.Failures
	switch {
	case !slices.Contains(arrows[old.State], now.State):
		return fmt.Errorf("there is no arrow from %q to %q", old.State, now.State)
	case now.State != "" && now.Attempt != attempt:
		return fmt.Errorf("attempt %d follows %d", now.Attempt, old.Attempt)
	case worker && !s.under(now.Resource, now.Token):
		return errors.New("a worker's step is not under the job's term")
	case now.State != "" && old.Resource != "" && now.Resource != old.Resource:
		return fmt.Errorf("resource %s follows %s", now.Resource, old.Resource)
	case now.Number != old.Number && !s.numbers(now.Number, documents.KindPut) &&
		!s.numbers(old.Number, documents.KindDelete):
		return fmt.Errorf("number %d follows %d, and no document says so", now.Number, old.Number)
	case old.State == job.Assigned && now.State == job.Failed && now.Lost <= job.MaxLost:
		return errors.New("it has failed without a run")
	case now.State == job.Running && now.Token <= old.Token:
		return fmt.Errorf("token %v follows %v", now.Token, old.Token)
	}
	return s.places(id, old)
}

// under reports whether a change is made only while a token leads.
func (s step) under(r fence.Resource, token fence.Token) bool {
	return slices.ContainsFunc(s.change.While, func(c fence.Claim) bool {
		return c.Resource == r && c.Token == token
	})
}

// numbers reports whether a change gives a numbered resource to a job, or takes it away.
func (s step) numbers(number int, kind documents.Kind) bool {
	return slices.ContainsFunc(s.change.Writes, func(w documents.Write) bool {
		return w.Kind == kind && strings.HasSuffix(w.Path, fmt.Sprintf("/resources/%d", number))
	})
}

// places checks that a job is at one place: a step out of a state takes it away from where it
// stood, and one into a state puts it there.
func (s step) places(id job.ID, old job.Status) error {
	placed := map[string]int{} // by folder: 1 if it was put there, -1 if taken away
	for _, w := range s.change.Writes {
		folder := place(id, w.Path)
		switch w.Kind {
		case documents.KindPut:
			placed[folder]++
		case documents.KindDelete:
			placed[folder]--
		}
	}
	for _, folder := range []string{"waiting", "assigned", "finished"} {
		if want := stands(s.status, folder) - stands(old, folder); placed[folder] != want {
			return fmt.Errorf("its documents in %s change by %d, want %d", folder, placed[folder], want)
		}
	}
	return nil
}

// place returns in which of a group's folders a document puts a job, "" if it is another job's.
func place(id job.ID, document string) string {
	parts := strings.Split(document, "/") // jobs/GROUP/FOLDER/…
	if len(parts) < 4 || !strings.Contains(path.Base(document), string(id)) {
		return ""
	}
	return parts[2]
}

// stands returns 1 if a job of this status has a document in a folder.
func stands(s job.Status, folder string) int {
	in := map[string]bool{
		"waiting": s.State == job.Waiting, "finished": s.State.Finished(),
		"assigned": s.State == job.Assigned || s.State == job.Running,
	}
	if in[folder] {
		return 1
	}
	return 0
}
