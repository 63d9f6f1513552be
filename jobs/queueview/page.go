package queueview

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/jobs/job"
)

// Selection says which jobs a page has. The zero value selects the oldest ones.
type Selection struct {
	State job.State // only those in this state; "": in any
	Kind  string    // only those of this kind; "": of any
	Text  string    // only those that have it, in any case, in what people know a job by; "": all
	After job.ID    // only those that were submitted after this one; it may be forgotten
	Limit int       // how many; 0: MaxPage
}

// MaxPage is how many jobs a page has at most.
const MaxPage = 1000

// pageRead is how many statuses are read at a time. Each may have a result, which the page leaves
// out.
const pageRead = 50

// Page returns the selected jobs, the oldest first, without results and histories, and whether
// there are more after the last one. A status that cannot be read is left out and part of the
// error.
func (v *View) Page(ctx context.Context, s Selection) (page []job.Status, more bool, err error) {
	if s.Limit <= 0 || s.Limit > MaxPage {
		s.Limit = MaxPage
	}
	names, err := v.store.Docs.Names(ctx, v.store.Paths.Statuses())
	if err != nil {
		return nil, false, err
	}
	from, found := slices.BinarySearch(names, string(s.After))
	if found {
		from++
	}
	full := errors.New("the page is full")
	err = v.store.Read(ctx, names[from:], pageRead, func(status job.Status) error {
		switch {
		case !s.selects(status):
			return nil
		case len(page) == s.Limit:
			return full
		}
		status.Result, status.History = nil, nil
		page = append(page, status)
		return nil
	})
	if errors.Is(err, full) {
		return page, true, nil
	}
	return page, false, err
}

func (s Selection) selects(status job.Status) bool {
	return (s.State == "" || s.State == status.State) && (s.Kind == "" || s.Kind == status.Kind) &&
		has(status, s.Text)
}

// has reports whether a text is in the ID, kind, title, resource, key, labels, worker or error.
func has(s job.Status, text string) bool {
	in := append([]string{
		string(s.ID), s.Kind, s.Title, string(s.Resource), s.Unique, s.WorkerName, s.Error,
	}, s.Labels...)
	return strings.Contains(strings.ToLower(strings.Join(in, "\n")), strings.ToLower(text))
}
