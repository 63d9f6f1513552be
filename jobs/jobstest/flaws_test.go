package jobstest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/fence/elector"
)

// flaw is one way in which a coordinator can be wrong so that jobs are. Where a function is nil, it
// is right. What package jobs itself could do wrong is not in the table: there, a clause must fail
// when the line is removed that does it right.
type flaw struct {
	name   string
	clause string // the clause that finds it soonest
	says   string // words of that clause's failure

	campaign   func(*flawed, context.Context, fence.Resource, string) (*fence.Term, error)
	members    func(*world, []elector.Candidate) []elector.Candidate
	change     func(*flawedStore, context.Context, documents.Change) ([]int64, error)
	names      func(w *world, folder string, names []string) []string
	watchNames func(context.Context, string, func([]string) error) func([]string) error
	watch      func(func(documents.Document) error) func(documents.Document) error
}

var flaws = slices.Concat(flawsOfStores, flawsOfWatches, flawsOfElections, flawsOfMembers)

var flawsOfStores = []flaw{
	{
		name: "ignores versions", clause: "a unique job is handed in once", says: "have one key",
		change: func(s *flawedStore, ctx context.Context, c documents.Change) ([]int64, error) {
			return s.Store.Change(ctx, forced(ctx, s.Store, c))
		},
	},
	{
		name: "ignores terms", clause: "the result of a worker that leads no more is not published",
		says: "the late result", change: withoutTerms,
	},
	{
		name: "ignores the term of the assigner", says: "the late assignment",
		clause: "a change of a deposed leader of the group assigns nothing", change: withoutTerms,
	},
	{
		name: "makes a change in parts, and stops between two", says: "has not ended",
		clause: "random histories keep the rules", change: inParts,
	},
	{
		name: "deletes nothing", clause: "a finished job is forgotten", says: "it is forgotten",
		change: func(s *flawedStore, ctx context.Context, c documents.Change) ([]int64, error) {
			c.Writes = slices.DeleteFunc(slices.Clone(c.Writes), func(w documents.Write) bool {
				return w.Kind == documents.KindDelete
			})
			return s.Store.Change(ctx, c)
		},
	},
	{
		name: "lists a folder without the newest name", clause: "jobs are listed", says: "of 20 jobs",
		names: func(_ *world, _ string, names []string) []string {
			return names[:max(0, len(names)-1)]
		},
	},
	{
		name: "lists a folder as it was before", says: "want done",
		clause: "the jobs of a worker that is gone go to another",
		names: func(w *world, folder string, names []string) []string {
			w.mu.Lock()
			defer w.mu.Unlock()
			return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
				_, known := w.seen[folder+"/"+name]
				w.seen[folder+"/"+name] = 1
				return !known
			})
		},
	},
}

// withoutTerms makes a change whoever leads.
func withoutTerms(s *flawedStore, ctx context.Context, c documents.Change) ([]int64, error) {
	c.While = nil
	return s.Store.Change(ctx, c)
}

// forced is a change that is made whatever the versions are.
func forced(ctx context.Context, store documents.Store, c documents.Change) documents.Change {
	right := documents.Change{While: c.While}
	for _, w := range c.Writes {
		now, err := store.Get(ctx, documents.At(w.Path))
		if err != nil {
			return c
		}
		if w.Version = now[0].Version; w.Version != 0 || w.Kind == documents.KindPut {
			right.Writes = append(right.Writes, w)
		}
	}
	return right
}

// inParts makes the writes of a change one after the other, and stops after the first one each
// fifth time.
func inParts(s *flawedStore, ctx context.Context, c documents.Change) ([]int64, error) {
	stop := s.f.world.next()%5 == 0
	var versions []int64
	for i, w := range c.Writes {
		if i > 0 && stop {
			return nil, fmt.Errorf("%w: stopped", documents.ErrUnknown)
		}
		one, err := s.Store.Change(ctx, documents.Change{While: c.While, Writes: []documents.Write{w}})
		if err != nil {
			return nil, err
		}
		versions = append(versions, one...)
	}
	return versions, nil
}

var flawsOfWatches = []flaw{
	{
		name: "loses what is new in the waiting jobs", clause: "every job is done, and its result " +
			"published",
		says: "want done", watchNames: onlyTheFirst("/waiting"),
	},
	{
		name: "loses what is new in a worker's assignments", says: "want done",
		clause: "every job is done, and its result published", watchNames: onlyTheFirst("/assigned/"),
	},
	{
		name: "loses a request to cancel", clause: "a running job is cancelled", says: "want cancelled",
		watchNames: onlyTheFirst("/cancel"),
	},
	{
		name: "shows names in any order", clause: "a job with a higher priority goes first",
		says: "the order was",
		watchNames: func(
			_ context.Context, _ string, each func([]string) error,
		) func([]string) error {
			return func(names []string) error { slices.Reverse(names); return each(names) }
		},
	},
	{
		name: "shows a document once", clause: "every job is done, and its result published",
		says: "want done",
		watch: func(each func(documents.Document) error) func(documents.Document) error {
			shown := false
			return func(d documents.Document) error {
				if shown {
					return nil
				}
				shown = true
				return each(d)
			}
		},
	},
}

// onlyTheFirst shows what is in such folders first, and no change.
func onlyTheFirst(
	such string,
) func(context.Context, string, func([]string) error) func([]string) error {
	return func(_ context.Context, folder string, each func([]string) error) func([]string) error {
		shown := false
		return func(names []string) error {
			if shown && strings.Contains(folder, such) {
				return nil
			}
			shown = true
			return each(names)
		}
	}
}

var flawsOfElections = []flaw{
	{
		name: "lets everybody win at once", clause: "two jobs with one resource never run at once",
		says: "run at once",
		campaign: func(
			f *flawed, ctx context.Context, r fence.Resource, holder string,
		) (*fence.Term, error) {
			if strings.HasPrefix(string(r), "members_") || strings.HasPrefix(string(r), "jobs_") {
				return f.Coordinator.Campaign(ctx, r, holder)
			}
			return f.winAtOnce(ctx, r, holder)
		},
	},
	{
		name: "elects nobody after the first", clause: "jobs go on when the assigner is gone",
		says: "want done",
		campaign: func(
			f *flawed, ctx context.Context, r fence.Resource, holder string,
		) (*fence.Term, error) {
			if !strings.HasPrefix(string(r), "jobs_") || f.world.next() == 1 {
				return f.Coordinator.Campaign(ctx, r, holder)
			}
			<-ctx.Done()
			return nil, context.Cause(ctx)
		},
	},
	{
		name: "wins another resource", clause: "every job is done, and its result published",
		says: "the term is of",
		campaign: func(
			f *flawed, ctx context.Context, r fence.Resource, holder string,
		) (*fence.Term, error) {
			if strings.HasPrefix(string(r), "job_") {
				r += "_x"
			}
			return f.Coordinator.Campaign(ctx, r, holder)
		},
	},
}

var flawsOfMembers = []flaw{
	{
		name: "shows members that are gone", says: "want done",
		clause: "the jobs of a worker that is gone go to another",
		members: func(w *world, all []elector.Candidate) []elector.Candidate {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.ever = append(w.ever, all...)
			slices.SortFunc(w.ever, func(a, b elector.Candidate) int { return a.Token.Compare(b.Token) })
			w.ever = slices.CompactFunc(w.ever, func(a, b elector.Candidate) bool {
				return a.Token == b.Token
			})
			return slices.Clone(w.ever)
		},
	},
	{
		name: "shows no members", clause: "a job waits for a worker", says: "is a member",
		members: func(*world, []elector.Candidate) []elector.Candidate { return nil },
	},
	{
		name: "gives a member that comes back its old ID", says: "another ID",
		clause: "a worker that has lost its session comes back under another ID",
		members: func(w *world, all []elector.Candidate) []elector.Candidate {
			w.mu.Lock()
			defer w.mu.Unlock()
			for i, c := range all {
				name := says(c)["name"].(string)
				if w.seen[name] == 0 {
					w.seen[name] = c.Token
				}
				all[i].Token = w.seen[name]
			}
			return all
		},
	},
	{
		name: "shows members with room for more", says: "jobs are assigned to a worker for",
		clause: "a worker has no more jobs than it wants",
		members: offers(func(value map[string]any) {
			value["capacity"] = value["capacity"].(float64) * 2
		}),
	},
	{
		name: "shows members with other labels", clause: "a job goes to a worker with its labels and " +
			"its kind",
		says: "did a job for gpu",
		members: offers(func(value map[string]any) {
			value["labels"] = []string{"gpu"}
		}),
	},
}

// says is what a member says about itself.
func says(c elector.Candidate) (holder map[string]any) {
	if err := json.Unmarshal([]byte(c.Holder), &holder); err != nil {
		panic(err)
	}
	return holder
}

// offers changes what members offer.
func offers(
	change func(value map[string]any),
) func(*world, []elector.Candidate) []elector.Candidate {
	return func(_ *world, all []elector.Candidate) []elector.Candidate {
		for i, c := range all {
			holder := says(c)
			change(holder["value"].(map[string]any))
			text, err := json.Marshal(holder)
			if err != nil {
				panic(err)
			}
			all[i].Holder = string(text)
		}
		return all
	}
}
