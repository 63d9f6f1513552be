package documentstest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
)

// flaw is one way to be wrong. Where a function is nil, the store is right.
type flaw struct {
	name   string
	clause string // the clause that finds it soonest
	says   string // words of that clause's failure
	asks   bool   // it needs a client of its own

	change     func(*flawed, context.Context, documents.Change) ([]int64, error)
	read       func(*flawed, context.Context, documents.Read) ([]documents.Document, error)
	get        func(*flawed, []string, []documents.Document, error) ([]documents.Document, error)
	names      func(*flawed, context.Context, string, []string) ([]string, error)
	watchNames func(*flawed, func([]string) error) func([]string) error
	watch      func(*flawed, func(documents.Document) error) func(documents.Document) error
	watched    func(error) error // what WatchNames returns
}

var flaws = slices.Concat(flawsOfTerms, flawsOfChanges, flawsOfAnswers, flawsOfReads,
	flawsOfWatches)

// otherChange makes another change than the one that was asked for.
func otherChange(
	turn func(*flawed, context.Context, documents.Change) documents.Change,
) func(*flawed, context.Context, documents.Change) ([]int64, error) {
	return func(f *flawed, ctx context.Context, c documents.Change) ([]int64, error) {
		c.While, c.Writes = slices.Clone(c.While), slices.Clone(c.Writes)
		return f.Store.Change(ctx, turn(f, ctx, c))
	}
}

var flawsOfTerms = []flaw{
	{
		name: "ignores terms", clause: "who does not lead changes nothing", says: "the change returned",
		change: otherChange(func(_ *flawed, _ context.Context, c documents.Change) documents.Change {
			c.While = nil
			return c
		}),
	},
	{
		name: "looks at the first term only", says: "the change returned",
		clause: "one of two terms that is over is enough to refuse",
		change: otherChange(func(_ *flawed, _ context.Context, c documents.Change) documents.Change {
			c.While = c.While[:min(1, len(c.While))]
			return c
		}),
	},
	{
		name: "looks at the terms before the change", says: "the late change returned", asks: true,
		clause: "a change of a deposed leader that arrives late changes nothing",
		change: func(f *flawed, ctx context.Context, c documents.Change) ([]int64, error) {
			for _, claim := range c.While {
				if _, err := f.other.Documents().Change(ctx, documents.Change{
					While: []fence.Claim{claim},
				}); err != nil {
					return nil, err
				}
			}
			c.While = nil
			return f.Store.Change(ctx, c)
		},
	},
	{
		name: "takes a token of another issuer for its own", says: "the change returned",
		clause: "a token of another issuer changes nothing",
		change: otherChange(func(f *flawed, ctx context.Context, c documents.Change) documents.Change {
			for i := range c.While {
				c.While[i].Issuer, _ = f.at.Issuer(ctx)
			}
			return c
		}),
	},
	{
		name: "remembers who led, and not under which issuer", says: "the change returned",
		clause: "a renewed issuer ends changes and reads under earlier claims",
		change: func(f *flawed, ctx context.Context, c documents.Change) ([]int64, error) {
			versions, err := f.Store.Change(ctx, c)
			if errors.Is(err, fence.ErrOtherIssuer) && f.hasLed(c.While) {
				c.While = nil
				return f.Store.Change(ctx, c)
			}
			if err == nil {
				f.remember(c.While)
			}
			return versions, err
		},
	},
	{
		name: "refuses leaders", clause: "a leader's change is made", says: "no longer",
		change: func(f *flawed, ctx context.Context, c documents.Change) ([]int64, error) {
			if len(c.While) > 0 {
				return nil, &fence.Refusal{Reason: fence.ErrStale, Claim: c.While[0], Message: "no longer"}
			}
			return f.Store.Change(ctx, c)
		},
	},
}

func (f *flawed) remember(claims []fence.Claim) {
	f.set(func(f *flawed) { f.led = append(f.led, claims...) })
}

// hasLed reports that all claims were remembered.
func (f *flawed) hasLed(claims []fence.Claim) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !slices.ContainsFunc(claims, func(c fence.Claim) bool { return !slices.Contains(f.led, c) })
}

var flawsOfChanges = []flaw{
	{
		name: "ignores versions", clause: "a change of another version is a conflict",
		says: "the change returned", change: otherChange(forced),
	},
	{
		name: "lets the last writer win", clause: "no concurrent change is lost", says: "counter is",
		change: otherChange(func(f *flawed, ctx context.Context, c documents.Change) documents.Change {
			select { // long enough for the others to read the same
			case <-time.After(2 * time.Millisecond):
			case <-ctx.Done():
			}
			return forced(f, ctx, c)
		}),
	},
	{
		name: "makes one write after the other", clause: "a change is made as a whole or not at all",
		says: "is",
		change: func(f *flawed, ctx context.Context, c documents.Change) (versions []int64, err error) {
			for _, w := range c.Writes {
				one, err := f.Store.Change(ctx, documents.Change{While: c.While, Writes: []documents.Write{w}})
				if err != nil {
					return nil, err
				}
				versions = append(versions, one...)
			}
			return versions, nil
		},
	},
	{
		name: "takes half of the writes", clause: "the most writes are one change", says: "too many",
		change: func(f *flawed, ctx context.Context, c documents.Change) ([]int64, error) {
			if len(c.Writes) > documents.MaxWrites/2 {
				return nil, fmt.Errorf("%w: too many", documents.ErrBadChange)
			}
			return f.Store.Change(ctx, c)
		},
	},
	{
		name: "makes the first of two writes of one document", clause: "what is no change is refused",
		says: "the change returned",
		change: otherChange(func(_ *flawed, _ context.Context, c documents.Change) documents.Change {
			c.Writes = slices.CompactFunc(c.Writes, func(a, b documents.Write) bool {
				return a.Path == b.Path
			})
			return c
		}),
	},
	{
		name: "cuts long data", clause: "too much data is refused, and nothing changes",
		says: "the change returned",
		change: otherData(func(data []byte) []byte {
			if len(data) > 10<<20 {
				return data[:10]
			}
			return data
		}),
	},
	{
		name: "ends data at a zero", clause: "data are any bytes, or none", says: "want",
		change: otherData(func(data []byte) []byte {
			if i := slices.Index(data, 0); i >= 0 {
				return data[:i]
			}
			return data
		}),
	},
}

// forced makes each write whatever the version is.
func forced(f *flawed, ctx context.Context, c documents.Change) documents.Change {
	writes := c.Writes
	c.Writes = nil
	for _, w := range writes {
		now, err := f.Store.Get(ctx, documents.At(w.Path))
		if err != nil {
			return documents.Change{Writes: []documents.Write{{}}} // refused
		}
		if w.Version = now[0].Version; w.Version != 0 || w.Kind == documents.KindPut {
			c.Writes = append(c.Writes, w)
		}
	}
	return c
}

// otherData changes what is written.
func otherData(
	turn func([]byte) []byte,
) func(*flawed, context.Context, documents.Change) ([]int64, error) {
	return otherChange(func(_ *flawed, _ context.Context, c documents.Change) documents.Change {
		for i := range c.Writes {
			c.Writes[i].Data = turn(c.Writes[i].Data)
		}
		return c
	})
}

var flawsOfAnswers = []flaw{
	{
		name: "returns other versions", clause: "a document is created, replaced and deleted",
		says: "was created",
		change: func(f *flawed, ctx context.Context, c documents.Change) ([]int64, error) {
			versions, err := f.Store.Change(ctx, c)
			for i := range versions {
				versions[i]++
			}
			return versions, err
		},
	},
	{
		name: "makes a change again when the reply is lost", says: "returned",
		clause: "a change whose reply was lost is unknown, and happens once",
		change: func(f *flawed, ctx context.Context, c documents.Change) ([]int64, error) {
			versions, err := f.Store.Change(ctx, c)
			if errors.Is(err, documents.ErrUnknown) {
				return f.Store.Change(ctx, c)
			}
			return versions, err
		},
	},
	{
		name: "says that nothing has changed when the reply is lost", says: "returned",
		clause: "a change whose reply was lost is unknown, and happens once",
		change: func(f *flawed, ctx context.Context, c documents.Change) ([]int64, error) {
			versions, err := f.Store.Change(ctx, c)
			if errors.Is(err, documents.ErrUnknown) {
				return nil, documents.ErrUnreachable
			}
			return versions, err
		},
	},
	{
		name: "says out of reach that there is no document", says: "out of reach",
		clause: "out of reach nothing is read or changed",
		get: func(
			_ *flawed, paths []string, all []documents.Document, err error,
		) ([]documents.Document, error) {
			if errors.Is(err, documents.ErrUnreachable) {
				return make([]documents.Document, len(paths)), nil
			}
			return all, err
		},
	},
	{
		name: "reads after it was closed", says: "a closed client reads",
		clause: "a closed client reads and changes nothing",
		get: func(
			f *flawed, paths []string, all []documents.Document, err error,
		) ([]documents.Document, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.closed {
				return make([]documents.Document, len(paths)), nil
			}
			return all, err
		},
	},
}

var flawsOfReads = []flaw{
	{
		name: "reads whoever leads", clause: "who does not lead reads nothing under its term",
		says: "a read under",
		read: func(f *flawed, ctx context.Context, r documents.Read) ([]documents.Document, error) {
			r.While = nil
			return f.Store.Get(ctx, r)
		},
	},
	{
		name: "looks at the first term of a read only", says: "a read under",
		clause: "who does not lead reads nothing under its term",
		read: func(f *flawed, ctx context.Context, r documents.Read) ([]documents.Document, error) {
			r.While = r.While[:min(1, len(r.While))]
			return f.Store.Get(ctx, r)
		},
	},
	{
		name: "reads nothing under a term", clause: "a leader reads under its term", says: "a leader " +
			"reads",
		read: func(f *flawed, ctx context.Context, r documents.Read) ([]documents.Document, error) {
			if len(r.While) > 0 {
				r.Paths = nil
			}
			return f.Store.Get(ctx, r)
		},
	},
	{
		name: "reads what it has read before", clause: "a document is created, replaced and deleted",
		says: "want",
		get: func(
			f *flawed, _ []string, all []documents.Document, err error,
		) ([]documents.Document, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			for i, d := range all {
				if before, read := f.seen[d.Path]; read {
					all[i] = before
				}
				f.seen[d.Path] = all[i]
			}
			return all, err
		},
	},
	{
		name: "lists the folders in a folder, too", clause: "a folder has its own documents only",
		says: "the folder has",
		names: func(f *flawed, ctx context.Context, folder string, names []string) ([]string, error) {
			inner, err := f.Store.Names(ctx, folder+"/inner")
			if len(inner) > 0 {
				names = append(names, "inner")
			}
			return names, err
		},
	},
	{
		name: "lists a folder as it was the last time", clause: "a folder has its own documents only",
		says: "the folder has",
		names: func(f *flawed, _ context.Context, folder string, names []string) ([]string, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			names = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
				_, known := f.seen[folder+"/"+name]
				f.seen[folder+"/"+name] = documents.Document{}
				return !known
			})
			return names, nil
		},
	},
}

var flawsOfWatches = []flaw{
	{
		name: "does not show an empty folder", clause: "names are watched", says: "the first notice",
		watchNames: func(_ *flawed, each func([]string) error) func([]string) error {
			return func(names []string) error {
				if len(names) == 0 {
					return nil
				}
				return each(names)
			}
		},
	},
	{
		name: "does not show that names are gone", clause: "names are watched", says: "the watch shows",
		watchNames: func(_ *flawed, each func([]string) error) func([]string) error {
			var ever []string
			return func(names []string) error {
				ever = append(ever, names...)
				slices.Sort(ever)
				ever = slices.Compact(ever)
				return each(slices.Clone(ever))
			}
		},
	},
	{
		name: "shows the first names only", clause: "names are watched", says: "the watch shows",
		watchNames: func(_ *flawed, each func([]string) error) func([]string) error {
			shown := false
			return func(names []string) error {
				if shown {
					return nil
				}
				shown = true
				return each(names)
			}
		},
	},
	{
		name: "shows names in any order", clause: "names are watched", says: "not sorted",
		watchNames: func(_ *flawed, each func([]string) error) func([]string) error {
			return func(names []string) error { slices.Reverse(names); return each(names) }
		},
	},
	{
		name: "does not show that a document is gone", clause: "a document is watched",
		says: "the watch shows",
		watch: func(_ *flawed, each func(documents.Document) error) func(documents.Document) error {
			shown := false
			return func(d documents.Document) error {
				if shown && !d.Exists() {
					return nil
				}
				shown = true
				return each(d)
			}
		},
	},
	{
		name: "ends a watch without an error", clause: "a watch ends with its context or its callback",
		says: "WatchNames returned", watched: func(error) error { return nil },
	},
	{
		name: "ends a watch at a cut", clause: "a watch survives a cut", says: "the watch ended",
		watchNames: func(f *flawed, each func([]string) error) func([]string) error {
			return func(names []string) error {
				if f.wasCut() {
					return documents.ErrUnreachable
				}
				return each(names)
			}
		},
	},
	{
		name: "misses what happens during a cut", clause: "a watch survives a cut",
		says: "the watch shows",
		watch: func(f *flawed, each func(documents.Document) error) func(documents.Document) error {
			missed := false
			return func(d documents.Document) error {
				if f.wasCut() && !missed {
					missed = true
					return nil
				}
				return each(d)
			}
		},
	},
}

func (f *flawed) wasCut() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cut
}
