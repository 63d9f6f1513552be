package election

import (
	"context"
	"path"
	"slices"

	"github.com/ringfence/ringfence/internal/ensemble"
)

// Cache reads elections in the client's own session. A list of candidates takes one read for each
// znode. The content of a znode never changes, so a name that was read in the current session is
// not read again. The zero value is ready to use, with one client.
type Cache struct {
	entries ensemble.Cache[map[string]Entry] // by path
}

// Entries reads the candidates with these names, in order of token. ErrShared: the first two have
// one token, so neither leads.
func (c *Cache) Entries(
	ctx context.Context, s *ensemble.Session, dir string, names []string,
) ([]Entry, error) {
	entries, err := readEntries(ctx, s, dir, names, c.cached(s, dir, names))
	if err != nil {
		return nil, err
	}
	c.store(s, dir, entries)
	return entries, sharedLead(dir, entries)
}

// cached returns the entries of these names that were already read.
func (c *Cache) cached(s *ensemble.Session, dir string, names []string) map[string]Entry {
	cached := map[string]Entry{}
	c.entries.Use(s, func(all *map[string]Entry) {
		for _, name := range names {
			if e, ok := (*all)[path.Join(dir, name)]; ok {
				cached[name] = e
			}
		}
	})
	return cached
}

// store caches the entries of an election and drops those that are gone from it.
func (c *Cache) store(s *ensemble.Session, dir string, entries []Entry) {
	c.entries.Use(s, func(all *map[string]Entry) {
		if *all == nil {
			*all = map[string]Entry{}
		}
		for at, e := range *all {
			if path.Dir(at) == dir && !slices.Contains(entries, e) {
				delete(*all, at)
			}
		}
		for _, e := range entries {
			(*all)[path.Join(dir, e.Name)] = e
		}
	})
}
