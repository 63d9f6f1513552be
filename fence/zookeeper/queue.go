package zookeeper

import (
	"context"
	"errors"
	"path"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/internal/ensemble"
	"github.com/ringfence/ringfence/internal/ensemble/election"
)

// await waits until the candidate leads. It returns the start of the round trip that proved it.
// errGone: somebody deleted the candidate.
func (e *enrolment) await(ctx context.Context) (confirmed time.Time, err error) {
	before, err := e.predecessors(ctx)
	if err != nil {
		return time.Time{}, err
	}
	for len(before) > 0 {
		_, changed, _ := e.s.State()
		names, err := e.s.List(ctx, e.dir)
		if err != nil {
			return time.Time{}, e.gone(err)
		}
		before = slices.DeleteFunc(before, func(other election.Entry) bool {
			return !slices.Contains(names, other.Name)
		})
		if len(before) == 0 {
			break
		}
		if err := e.sleep(ctx, before[len(before)-1], changed); err != nil {
			return time.Time{}, err
		}
	}
	return e.lead(ctx)
}

// lead proves that the candidate, which has no predecessor left, still exists.
func (e *enrolment) lead(ctx context.Context) (confirmed time.Time, err error) {
	for {
		connects, start := e.s.Connects(), time.Now()
		err := e.prove(ctx)
		switch {
		// A slower proof would make a term that is already half over.
		case err == nil && time.Since(start) < e.s.Timeout()/2:
			return start, nil
		case ensemble.Unanswered(err) && !ensemble.SessionOver(err):
			err = e.s.AwaitConnect(ctx, connects)
		}
		if err != nil {
			return time.Time{}, err
		}
	}
}

// predecessors lists the candidates that are older than this one. One list is enough: it was read
// after the own znode was created, so it has every older candidate, and later names are younger. If
// it has a candidate that was created in one transaction with the own znode, the error is
// election.ErrShared.
func (e *enrolment) predecessors(ctx context.Context) ([]election.Entry, error) {
	names, err := e.s.List(ctx, e.dir)
	if err != nil {
		return nil, e.gone(err)
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		id, ok := election.ParseName(name)
		return !ok || id == e.id // a second znode of our own is no predecessor
	})
	entries, err := election.ReadEntries(ctx, e.s, e.dir, names)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(entries, func(other election.Entry) bool {
		return other.Token == e.token
	}); i >= 0 {
		return nil, election.Shared(e.dir, e.token, e.name, entries[i].Name,
			"this campaign ends, and its candidate goes with its session; delete the other")
	}
	return slices.DeleteFunc(entries, func(other election.Entry) bool {
		return other.Token > e.token
	}), nil
}

// sleep watches the nearest predecessor and the own znode. It returns nil when it is time to read
// again: a watch fired, the connection broke or came back, or a session timeout has passed, in case
// a notice was lost.
func (e *enrolment) sleep(
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
	again := time.NewTimer(e.s.Timeout())
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
	if e.woken != nil {
		e.woken(e.resource, e.holder)
	}
	return nil
}

// watch sets a watch on a candidate. If the candidate is gone, it returns zk.ErrNoNode and sets
// none.
func (e *enrolment) watch(ctx context.Context, name string) (<-chan zk.Event, error) {
	_, armed, err := e.s.WatchData(ctx, path.Join(e.dir, name))
	return armed, err
}

// prove makes the round trip that wins a term and confirms it. It syncs with the ensemble's leader
// and then reads the own znode, which must still be the one that was enrolled, in this session.
func (e *enrolment) prove(ctx context.Context) error {
	stat, err := ensemble.Do(ctx, e.s, func(conn *zk.Conn) (*zk.Stat, error) {
		if _, err := conn.Sync(e.path()); err != nil {
			return nil, err
		}
		exists, stat, err := conn.Exists(e.path())
		if err != nil || !exists {
			return nil, err
		}
		return stat, nil
	})
	switch {
	case err != nil:
		return err
	case stat == nil, stat.EphemeralOwner != e.s.ID(), stat.Czxid != int64(e.token):
		return errGone
	}
	return nil
}

// gone returns errGone for a znode that does not exist.
func (e *enrolment) gone(err error) error {
	if errors.Is(err, zk.ErrNoNode) {
		return errGone
	}
	return e.s.Client().Explain(e.dir, err)
}
