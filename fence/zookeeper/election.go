package zookeeper

import (
	"context"
	"errors"
	"path"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
)

// entry is a candidate's znode.
type entry struct {
	name   string
	token  fence.Token // its czxid
	holder string
}

// atOnce is how many reads of one list are in flight.
const atOnce = 16

// readEntries reads the candidates with these names, in order of token. Names that are gone, foreign or persistent
// are left out. What is known already is not read again: a name has one czxid for ever.
func (s *session) readEntries(ctx context.Context, dir string, names []string, known map[string]entry) ([]entry, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	var entries []entry
	var all sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for _, name := range names {
		if e, ok := known[name]; ok {
			mu.Lock()
			entries = append(entries, e)
			mu.Unlock()
			continue
		}
		if !isCandidate(name) {
			continue
		}
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			e, found, err := s.readEntry(ctx, dir, name)
			switch {
			case err != nil:
				cancel(err) // the others need not go on
			case found:
				mu.Lock()
				entries = append(entries, e)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	slices.SortFunc(entries, func(a, b entry) int { return a.token.Compare(b.token) })
	return entries, nil
}

func (s *session) readEntry(ctx context.Context, dir, name string) (e entry, found bool, err error) {
	n, err := s.get(ctx, path.Join(dir, name))
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return entry{}, false, nil
	case err != nil:
		return entry{}, false, s.c.explain(path.Join(dir, name), err)
	case n.stat.EphemeralOwner == 0:
		return entry{}, false, nil
	}
	return entry{name, fence.Token(n.stat.Czxid), parse[candidateData](n.data).Holder}, true, nil
}

// acknowledged is the token of the election's acknowledgement, or 0.
func (s *session) acknowledged(ctx context.Context, dir string) (fence.Token, error) {
	at := path.Join(dir, leaderName)
	n, err := s.get(ctx, at)
	if errors.Is(err, zk.ErrNoNode) {
		return 0, nil
	}
	return parse[leaderData](n.data).Token, s.c.explain(at, err)
}
