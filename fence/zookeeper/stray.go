package zookeeper

import (
	"context"
	"errors"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence/zookeeper/internal/ensemble"
)

// A candidate knows which znodes it may have: made has the names of those that it has created or
// found, and unknown counts the creates that had no reply and whose znode was not found. Once the
// candidate has left, its session deletes what it has made and looks for the rest.

// created records the reply to a create. Without a reply, the znode may exist now or later.
func (e *candidate) created(name string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case err == nil:
		e.made[name] = true
		e.unknown--
	case errors.Is(err, zk.ErrNoNode), ensemble.Denied(err):
		e.unknown--
	default:
		e.look, e.wait = time.Time{}, 0 // look for it at once
	}
	if e.left {
		e.s.BeatNow()
	}
}

// found records a znode that a list has shown.
func (e *candidate) found(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, known := e.made[name]; !known {
		e.made[name] = true
		e.unknown--
	}
}

// cleared returns whether the candidate has no znode, and never will have.
func (e *candidate) cleared() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.unknown <= 0 && !slices.Contains(slices.Collect(maps.Values(e.made)), true)
}

// Leave implements campaign.Candidate.
func (e *candidate) Leave() {
	e.s.Forget(e.Key)
	e.mu.Lock()
	e.left = true
	e.mu.Unlock()
	if e.cleared() {
		return
	}
	e.s.mu.Lock()
	e.s.strays[e] = true
	e.s.mu.Unlock()
	e.s.BeatNow()
}

// sweep deletes the znodes of candidates that have left. Without it such a znode would hold up its
// election for as long as the session lives.
func (s *session) sweep(ctx context.Context) error {
	s.mu.Lock()
	strays := slices.Collect(maps.Keys(s.strays))
	s.mu.Unlock()
	if len(strays) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.Timeout/4)
	defer cancel()
	err := s.lookFor(ctx, strays)
	err = errors.Join(err, forAll(strays, func(e *candidate) error { return e.remove(ctx, "") }))
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range strays {
		if e.cleared() {
			delete(s.strays, e)
		}
	}
	return err
}

// maxLooks is how many elections a beat lists to find znodes of unknown name.
const maxLooks = 16

// lookFor looks for the znodes of creates that had no reply. The beat has synced in this session,
// so the ensemble should have shown them by now. In case one arrives even later, lookFor repeats
// the look in intervals that double, as long as the session lives.
func (s *session) lookFor(ctx context.Context, strays []*candidate) error {
	now := time.Now()
	due := map[string][]*candidate{} // by election
	slices.SortFunc(strays, func(a, b *candidate) int { return a.nextLook().Compare(b.nextLook()) })
	for _, e := range strays {
		_, listed := due[e.dir]
		if e.misses() && !now.Before(e.nextLook()) && (listed || len(due) < maxLooks) {
			due[e.dir] = append(due[e.dir], e)
		}
	}
	return forAll(slices.Collect(maps.Keys(due)), func(dir string) error {
		names, err := s.zk.List(ctx, dir)
		if ensemble.Unanswered(err) || ctx.Err() != nil {
			return err
		}
		for _, e := range due[dir] {
			if err := e.adopt(ctx, names); err != nil {
				return err
			}
			e.planLook(now)
		}
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		return err // such as a refusal, which must not keep the others from being looked for
	})
}

// misses returns whether the candidate may have a znode of unknown name.
func (e *candidate) misses() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.unknown > 0
}

func (e *candidate) nextLook() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.look
}

// planLook plans the next look.
func (e *candidate) planLook(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.wait = max(2*e.wait, e.s.Timeout/4)
	e.look = now.Add(e.wait)
}

// remove deletes the znodes that the candidate has made, except the one with this name. The
// acknowledgement goes together with its candidate.
func (e *candidate) remove(ctx context.Context, except string) error {
	e.mu.Lock()
	made, acknowledges := maps.Clone(e.made), e.acknowledges
	e.mu.Unlock()
	for name, exists := range made {
		if !exists || name == except {
			continue
		}
		done := name == e.name && acknowledges && e.removeBoth(ctx)
		if !done {
			// No other candidate ever has the name.
			if err := e.s.zk.Delete(ctx, path.Join(e.dir, name)); err != nil {
				return err
			}
		}
		e.mu.Lock()
		e.made[name] = false
		e.mu.Unlock()
	}
	return nil
}

// removeBoth deletes the candidate and the acknowledgement in one transaction. While the candidate
// exists, nobody younger has acknowledged, so the acknowledgement is its own, or an older one's. It
// returns false if they are not both there, or there was no answer.
func (e *candidate) removeBoth(ctx context.Context) bool {
	return e.s.zk.Multi(ctx, &zk.DeleteRequest{Path: e.path(), Version: -1},
		&zk.DeleteRequest{Path: path.Join(e.dir, leaderName), Version: -1}) == nil
}
