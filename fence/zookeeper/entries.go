package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"
	"golang.org/x/sync/errgroup"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/fence/zookeeper/internal/ensemble"
)

// entry is a candidate's znode.
type entry struct {
	name   string
	token  fence.Token // its czxid
	holder string
}

func (e entry) candidate() elector.Candidate {
	id, _ := guidIn(e.name)
	return elector.Candidate{Token: e.token, ID: string(id), Holder: e.holder}
}

// atOnce is how many requests run in parallel.
const atOnce = 16

// readEntries reads the candidates with these names, in order of token. It leaves out names that
// are gone, foreign or persistent. A name has one czxid for ever, so those in cached are not read.
func readEntries(
	ctx context.Context, s *ensemble.Session, dir string, names []string, cached map[string]entry,
) (entries []entry, err error) {
	var mu sync.Mutex
	reads, ctx := errgroup.WithContext(ctx)
	reads.SetLimit(atOnce)
	for _, name := range names {
		if e, ok := cached[name]; ok {
			mu.Lock()
			entries = append(entries, e)
			mu.Unlock()
			continue
		}
		if !isCandidate(name) {
			continue
		}
		reads.Go(func() error {
			n, err := s.Get(ctx, path.Join(dir, name))
			switch {
			case errors.Is(err, zk.ErrNoNode):
				return nil
			case err != nil:
				return s.Client.Explain(path.Join(dir, name), err)
			case n.Stat.EphemeralOwner == 0:
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			entries = append(entries,
				entry{name, fence.Token(n.Stat.Czxid), parse[entryData](n.Data).Holder})
			return nil
		})
	}
	if err := reads.Wait(); err != nil {
		return nil, err
	}
	slices.SortFunc(entries, func(a, b entry) int { return a.token.Compare(b.token) })
	return entries, nil
}

// acknowledged returns the token of the election's acknowledgement, or 0.
func acknowledged(ctx context.Context, s *ensemble.Session, dir string) (fence.Token, error) {
	at := path.Join(dir, leaderName)
	n, err := s.Get(ctx, at)
	if errors.Is(err, zk.ErrNoNode) {
		return 0, nil
	}
	return parse[acknowledgement](n.Data).Token, s.Client.Explain(at, err)
}

// cache reads elections in the client's own session. A list of candidates takes one read for each
// znode. The content of a znode never changes, so a name that was read in the current session is
// not read again. The zero value is ready to use, with one client.
type cache struct {
	all ensemble.Cache[map[string]entry] // by path
}

// entries reads the candidates with these names, in order of token. errShared: the first two have
// one token, so neither leads.
func (c *cache) entries(
	ctx context.Context, s *ensemble.Session, dir string, names []string,
) ([]entry, error) {
	cached := map[string]entry{}
	c.all.Use(s, func(all *map[string]entry) {
		for _, name := range names {
			if e, ok := (*all)[path.Join(dir, name)]; ok {
				cached[name] = e
			}
		}
	})
	entries, err := readEntries(ctx, s, dir, names, cached)
	if err != nil {
		return nil, err
	}
	c.store(s, dir, entries)
	if len(entries) > 1 && entries[0].token == entries[1].token { // others do no harm yet
		return nil, sharing(dir, entries[0].token, entries[0].name, entries[1].name,
			"neither of them leads; delete both: two processes with one token cannot be fenced "+
				"from each other")
	}
	return entries, nil
}

// store caches the entries of an election and drops those that are gone from it.
func (c *cache) store(s *ensemble.Session, dir string, entries []entry) {
	c.all.Use(s, func(all *map[string]entry) {
		if *all == nil {
			*all = map[string]entry{}
		}
		for at, e := range *all {
			if path.Dir(at) == dir && !slices.Contains(entries, e) {
				delete(*all, at)
			}
		}
		for _, e := range entries {
			(*all)[path.Join(dir, e.name)] = e
		}
	})
}

// errShared: two candidates have one czxid, because one multi request created both. Ours are
// created one by one, so another program did that.
var errShared = errors.New("two candidates have the same token")

// sharing returns the error for two candidates with this token. now says what happens next.
func sharing(dir string, token fence.Token, one, other, now string) error {
	return fmt.Errorf("%w: one multi request created %s and %s in %s, so token %s belongs "+
		"to both; %s; "+
		"then stop the program that did it: each candidate needs a create request of its own",
		errShared, one, other, dir, token, now)
}
