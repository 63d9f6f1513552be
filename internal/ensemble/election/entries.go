package election

import (
	"context"
	"errors"
	"path"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/ensemble"
)

// Entry is a candidate's znode.
type Entry struct {
	Name   string
	Token  fence.Token // its czxid
	Holder string
}

// ID returns the candidate's identity (fence.Candidate.ID).
func (e Entry) ID() string {
	id, _ := ParseName(e.Name)
	return string(id)
}

// atOnce is how many reads of one list run in parallel.
const atOnce = 16

// ReadEntries reads the candidates with these names, in order of token. It leaves out names that
// are gone, foreign or persistent.
func ReadEntries(
	ctx context.Context, s *ensemble.Session, dir string, names []string,
) ([]Entry, error) {
	return readEntries(ctx, s, dir, names, nil)
}

// readEntries uses the cache where it can: a name has one czxid for ever.
func readEntries(
	ctx context.Context, s *ensemble.Session, dir string, names []string, cached map[string]Entry,
) ([]Entry, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	var entries []Entry
	var all sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for _, name := range names {
		if e, ok := cached[name]; ok {
			mu.Lock()
			entries = append(entries, e)
			mu.Unlock()
			continue
		}
		if !IsCandidate(name) {
			continue
		}
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			e, found, err := readEntry(ctx, s, dir, name)
			switch {
			case err != nil:
				cancel(err) // stops the other reads
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
	slices.SortFunc(entries, func(a, b Entry) int { return a.Token.Compare(b.Token) })
	return entries, nil
}

func readEntry(
	ctx context.Context, s *ensemble.Session, dir, name string,
) (e Entry, found bool, err error) {
	n, err := s.Get(ctx, path.Join(dir, name))
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return Entry{}, false, nil
	case err != nil:
		return Entry{}, false, s.Client().Explain(path.Join(dir, name), err)
	case n.Stat.EphemeralOwner == 0:
		return Entry{}, false, nil
	}
	return Entry{name, fence.Token(n.Stat.Czxid), Parse[EntryData](n.Data).Holder}, true, nil
}

// Acknowledged returns the token of the election's acknowledgement, or 0.
func Acknowledged(ctx context.Context, s *ensemble.Session, dir string) (fence.Token, error) {
	at := path.Join(dir, LeaderName)
	n, err := s.Get(ctx, at)
	if errors.Is(err, zk.ErrNoNode) {
		return 0, nil
	}
	return Parse[Acknowledgement](n.Data).Token, s.Client().Explain(at, err)
}
