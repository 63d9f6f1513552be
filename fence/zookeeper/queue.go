package zookeeper

import (
	"context"
	"errors"
	"path"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/ensemble"
	"github.com/ringfence/ringfence/internal/ensemble/election"
)

// Await implements campaign.Candidate. It returns the start of the round trip that proved that the
// candidate leads. errGone: somebody deleted the candidate.
func (e *candidate) Await(ctx context.Context) (fence.Issuer, time.Time, error) {
	issuer, confirmed, err := e.await(ctx)
	return issuer, confirmed, e.s.over(err)
}

func (e *candidate) await(ctx context.Context) (fence.Issuer, time.Time, error) {
	before, err := e.predecessors(ctx)
	if err != nil {
		return "", time.Time{}, err
	}
	for len(before) > 0 {
		_, changed, _ := e.s.zk.State()
		names, err := e.s.zk.List(ctx, e.dir)
		if err != nil {
			return "", time.Time{}, e.gone(err)
		}
		before = slices.DeleteFunc(before, func(other election.Entry) bool {
			return !slices.Contains(names, other.Name)
		})
		if len(before) == 0 {
			break
		}
		if err := e.sleep(ctx, before[len(before)-1], changed); err != nil {
			return "", time.Time{}, err
		}
	}
	return e.lead(ctx)
}

// lead proves that the candidate, which has no predecessor left, still exists. Then it reads the
// issuer, which may have been renewed while the candidate waited. From here on the beats of the
// session confirm the candidate.
func (e *candidate) lead(ctx context.Context) (issuer fence.Issuer, confirmed time.Time, err error) {
	for {
		connects, start := e.s.zk.Connects(), time.Now()
		err := e.watchOwn(ctx)
		if err == nil {
			err = e.prove(ctx)
		}
		if err == nil {
			issuer, err = election.ReadIssuer(ctx, e.s.zk)
		}
		switch {
		// A slower proof would make a term that is already half over.
		case err == nil && time.Since(start) < e.s.Timeout/2:
			return issuer, start, nil
		case ensemble.Unanswered(err) && !ensemble.SessionOver(err):
			err = e.s.zk.AwaitConnect(ctx, connects)
		}
		if err != nil {
			return "", time.Time{}, err
		}
	}
}

// predecessors lists the candidates that are older than this one. One list is enough: it was read
// after the own znode was created, so it has every older candidate, and later names are younger. If
// it has a candidate that was created in one transaction with the own znode, the error is
// election.ErrShared.
func (e *candidate) predecessors(ctx context.Context) ([]election.Entry, error) {
	names, err := e.s.zk.List(ctx, e.dir)
	if err != nil {
		return nil, e.gone(err)
	}
	if err := e.single(ctx, names); err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		id, ok := election.ParseName(name)
		return !ok || id == e.id
	})
	entries, err := election.ReadEntries(ctx, e.s.zk, e.dir, names)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(entries, func(other election.Entry) bool {
		return other.Token == e.Token()
	}); i >= 0 {
		if err := e.take(ctx, entries[i].Name); err != nil {
			return nil, err
		}
		return nil, election.Shared(e.dir, e.Token(), e.name, entries[i].Name,
			"this campaign ends and deletes its candidate; delete the other")
	}
	return slices.DeleteFunc(entries, func(other election.Entry) bool {
		return other.Token > e.Token()
	}), nil
}

// take makes the candidate delete another one, too, if that is in its session. Nobody else would.
func (e *candidate) take(ctx context.Context, other string) error {
	stat, err := e.s.zk.Stat(ctx, path.Join(e.dir, other))
	if err == nil && stat != nil && stat.EphemeralOwner == e.s.zk.ID() {
		e.mu.Lock()
		e.made[other] = true
		e.mu.Unlock()
	}
	return err
}

// single deletes further znodes of our own, as after a create whose reply was lost and that
// happened after the next one was sent.
func (e *candidate) single(ctx context.Context, names []string) error {
	if !slices.ContainsFunc(names, func(name string) bool {
		id, ok := election.ParseName(name)
		return ok && id == e.id && name != e.name
	}) {
		return nil
	}
	if err := e.adopt(ctx, names); err != nil {
		return err
	}
	return e.remove(ctx, e.name)
}

// sleep watches the nearest predecessor and the own znode. It returns nil when it is time to read
// again: a watch fired, the connection broke or came back, or a session timeout has passed, in case
// a notice was lost.
func (e *candidate) sleep(
	ctx context.Context, nearest election.Entry, changed <-chan struct{},
) error {
	own, err := e.watch(ctx, e.name)
	if err != nil {
		return e.gone(err)
	}
	ahead, err := e.watch(ctx, nearest.Name)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	again := time.NewTimer(e.s.Timeout)
	defer again.Stop()
	select {
	case <-ahead:
	case <-own:
	case <-changed:
		return nil
	case <-again.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if e.s.c.woken != nil {
		e.s.c.woken(e.Resource, e.Holder)
	}
	return nil
}

// watch sets a watch on a candidate. If the candidate is gone, it returns zk.ErrNoNode and sets
// none.
func (e *candidate) watch(ctx context.Context, name string) (<-chan zk.Event, error) {
	_, armed, err := e.s.zk.WatchData(ctx, path.Join(e.dir, name))
	return armed, err
}

// prove makes the round trip that wins a term. It syncs with the ensemble's leader and then reads
// the own znode, which must still be the one that was enrolled, in this session.
func (e *candidate) prove(ctx context.Context) error {
	stat, err := ensemble.Do(ctx, e.s.zk, func(conn *zk.Conn) (*zk.Stat, error) {
		if _, err := conn.Sync(e.path()); err != nil {
			return nil, err
		}
		exists, stat, err := conn.Exists(e.path())
		if err != nil || !exists {
			return nil, err
		}
		return stat, nil
	})
	if err != nil {
		return err
	}
	return e.check(stat)
}
