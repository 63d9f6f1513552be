package zookeeper

import (
	"context"
	"errors"
	"math/rand/v2"
	"path"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/zookeeper/internal/ensemble"
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
		before = slices.DeleteFunc(before, func(other string) bool {
			return !slices.Contains(names, other)
		})
		if len(before) == 0 {
			break
		}
		err = e.sleep(ctx, before[len(before)-1], changed)
		if errors.Is(err, errMisled) {
			before, err = e.older(ctx, before)
		}
		if err != nil {
			return "", time.Time{}, err
		}
	}
	return e.lead(ctx)
}

// lead proves that the candidate, which has no predecessor left, still exists. Then it reads the
// issuer, which may have been renewed while the candidate waited. From here on the beats of the
// session confirm the candidate.
func (e *candidate) lead(
	ctx context.Context,
) (issuer fence.Issuer, confirmed time.Time, err error) {
	for {
		connects, start := e.s.zk.Connects(), time.Now()
		err := e.watchOwn(ctx)
		if err == nil {
			err = e.prove(ctx)
		}
		if err == nil {
			issuer, err = readIssuer(ctx, e.s.zk)
		}
		switch {
		// A slower proof would make a term that is already half over.
		case err == nil && time.Since(start) < e.s.Timeout/2:
			// So that a change of documents under this term need not look it up.
			e.s.c.documents.known.Won(e.Claim(issuer), e.path())
			return issuer, start, nil
		case ensemble.Unanswered(err) && !ensemble.SessionOver(err):
			err = e.s.zk.AwaitConnect(ctx, connects)
		}
		if err != nil {
			return "", time.Time{}, err
		}
	}
}

// predecessors returns the names of all candidates that are older than this one, and perhaps of
// younger ones that seem older, the nearest last. One list is enough: it was read after the own
// znode was created, so it has every older candidate, and later names are younger.
//
// Only a czxid says who is older. To read that of each name would be a thousand reads for each of a
// thousand candidates, so the sequence numbers decide which to read: those that seem younger. There
// are few, because they were created between the own znode and the list. If they are all younger,
// every older candidate seems older.
func (e *candidate) predecessors(ctx context.Context) ([]string, error) {
	names, err := e.s.zk.List(ctx, e.dir)
	if err != nil {
		return nil, e.gone(err)
	}
	if err := e.single(ctx, names); err != nil {
		return nil, err
	}
	var before, behind []string
	for _, name := range names {
		id, ok := guidIn(name)
		switch {
		case !ok, id == e.id:
		case seemsOlder(name, e.name):
			before = append(before, name)
		default:
			behind = append(behind, name)
		}
	}
	misled, err := e.older(ctx, behind)
	if err != nil {
		return nil, err
	}
	if len(misled) > 0 {
		return e.older(ctx, slices.Concat(before, behind))
	}
	slices.SortFunc(before, func(one, other string) int {
		if seemsOlder(one, other) {
			return -1
		}
		return 1
	})
	return before, nil
}

// older returns those of these candidates that are older than this one, the nearest last. If one
// was created in one transaction with the own znode, the error is errShared.
func (e *candidate) older(ctx context.Context, names []string) (older []string, err error) {
	entries, err := readEntries(ctx, e.s.zk, e.dir, names, nil)
	if err != nil {
		return nil, err
	}
	for _, other := range entries {
		switch {
		case other.token == e.Token():
			return nil, e.shared(ctx, other.name)
		case other.token < e.Token():
			older = append(older, other.name)
		}
	}
	return older, nil
}

// shared returns the error for a candidate that has the same token. If that is in the own session,
// this candidate deletes it, too: nobody else would.
func (e *candidate) shared(ctx context.Context, other string) error {
	stat, err := e.s.zk.Stat(ctx, path.Join(e.dir, other))
	if err != nil {
		return err
	}
	if stat != nil && stat.EphemeralOwner == e.s.zk.ID() {
		e.mu.Lock()
		e.made[other] = true
		e.mu.Unlock()
	}
	return sharing(e.dir, e.Token(), e.name, other,
		"this campaign ends and deletes its candidate; delete the other")
}

// single deletes further znodes of our own, as after a create whose reply was lost and that
// happened after the next one was sent.
func (e *candidate) single(ctx context.Context, names []string) error {
	if !slices.ContainsFunc(names, func(name string) bool {
		id, ok := guidIn(name)
		return ok && id == e.id && name != e.name
	}) {
		return nil
	}
	if err := e.adopt(ctx, names); err != nil {
		return err
	}
	return e.remove(ctx, e.name)
}

// errMisled: the nearest predecessor is none.
var errMisled = errors.New("a candidate that seems older is not")

// sleep watches the nearest predecessor and the own znode. It returns nil when it is time to list
// again: a watch fired, or the connection broke or came back. In case a notice was lost, it reads
// both znodes at least once in a session timeout; not all candidates do so at the same time.
func (e *candidate) sleep(ctx context.Context, nearest string, changed <-chan struct{}) error {
	for {
		_, own, err := e.s.zk.WatchData(ctx, e.path())
		if err != nil {
			return e.gone(err)
		}
		n, ahead, err := e.s.zk.WatchData(ctx, path.Join(e.dir, nearest))
		switch {
		case errors.Is(err, zk.ErrNoNode):
			return nil
		case err != nil:
			return err
		case n.Stat.EphemeralOwner == 0, n.Stat.Czxid >= int64(e.Token()):
			return errMisled
		}
		again := time.NewTimer(e.s.Timeout/2 + rand.N(e.s.Timeout/2))
		select {
		case <-again.C:
			continue
		case <-ahead:
		case <-own:
		case <-changed:
			again.Stop()
			return nil
		case <-ctx.Done():
			again.Stop()
			return context.Cause(ctx)
		}
		again.Stop()
		if e.s.c.woken != nil {
			e.s.c.woken(e.Resource, e.Holder)
		}
		return nil
	}
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
