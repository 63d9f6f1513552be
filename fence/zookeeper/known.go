package zookeeper

import (
	"context"
	"path"
	"slices"
)

// A list of candidates is read one znode at a time. What a name stands for never changes, so a name that has been read
// in the present session of the eyes is not read again.

// entries reads the candidates with these names, in order of token. errShared: it cannot be told
// which of them leads.
func (c *Coordinator) entries(ctx context.Context, s *session, dir string, names []string) ([]entry, error) {
	entries, err := s.readEntries(ctx, dir, names, c.known(s, dir, names))
	if err != nil {
		return nil, err
	}
	c.remember(s, dir, entries)
	return entries, sharedLead(dir, entries)
}

// known returns what has been read of these names in an election.
func (c *Coordinator) known(s *session, dir string, names []string) map[string]entry {
	known := map[string]entry{}
	c.eyes.mu.Lock()
	defer c.eyes.mu.Unlock()
	if c.eyes.s != s {
		return known
	}
	for _, name := range names {
		if e, ok := c.eyes.known[path.Join(dir, name)]; ok {
			known[name] = e
		}
	}
	return known
}

// remember notes the entries of an election and forgets those that are gone from it.
func (c *Coordinator) remember(s *session, dir string, entries []entry) {
	c.eyes.mu.Lock()
	defer c.eyes.mu.Unlock()
	if c.eyes.s != s {
		return
	}
	for at, e := range c.eyes.known {
		if path.Dir(at) == dir && !slices.Contains(entries, e) {
			delete(c.eyes.known, at)
		}
	}
	for _, e := range entries {
		c.eyes.known[path.Join(dir, e.name)] = e
	}
}
