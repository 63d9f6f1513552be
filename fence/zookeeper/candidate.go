package zookeeper

import (
	"context"
	"errors"
	"math/rand/v2"
	"path"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence/internal/campaign"
)

// errGone: the own candidate is gone.
var errGone = errors.New("the candidate's znode was deleted")

// candidate is a znode in an election. Its key is its GUID.
type candidate struct {
	campaign.Standing
	s   *session
	id  guid
	dir string

	name string // of the znode; the campaign's own until the candidate has enrolled

	mu   sync.Mutex
	made map[string]bool // its znodes, and whether they may exist; see stray.go
	// creates that may have made, or may yet make, a znode of unknown name
	unknown      int
	acknowledges bool          // it has sent an acknowledgement
	left         bool          // it has left; strays has it while it may have a znode
	look         time.Time     // when to look for znodes of unknown name
	wait         time.Duration // between the last look and that one

	own      <-chan zk.Event // the watch on the znode; nil before the candidate was proved to lead
	connects int             // on which connection the watch was set
	again    time.Time       // when to read the znode again even if the watch has not fired
	armed    chan struct{}   // closed when there is another watch
}

func (e *candidate) path() string { return path.Join(e.dir, e.name) }

// watchOwn sets a watch on the own znode, or keeps the one that is set, and reads the znode. It
// returns errGone unless the znode is the one that was enrolled, in this session.
func (e *candidate) watchOwn(ctx context.Context) error {
	connects := e.s.zk.Connects()
	n, own, err := e.s.zk.WatchData(ctx, e.path())
	if err != nil {
		return e.gone(err)
	}
	if err := e.check(n.Stat); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.own != own {
		close(e.armed)
		e.armed = make(chan struct{})
	}
	e.own, e.connects = own, connects
	timeout := e.s.Timeout
	e.again = time.Now().Add(timeout/2 + rand.N(timeout/4)) // not all at the same time
	return nil
}

// check returns errGone unless this is the znode that was enrolled, in this session.
func (e *candidate) check(stat *zk.Stat) error {
	if stat == nil || stat.EphemeralOwner != e.s.zk.ID() || stat.Czxid != int64(e.Token()) {
		return errGone
	}
	return nil
}

// gone returns errGone for a znode that does not exist.
func (e *candidate) gone(err error) error {
	if errors.Is(err, zk.ErrNoNode) {
		return errGone
	}
	return e.s.c.client.Explain(e.dir, err)
}

// due returns whether a candidate that was proved to lead has to be read again.
func (e *candidate) due(connects int) bool {
	if e.Cause() != nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.own != nil &&
		(fired(e.own) || e.connects != connects || !time.Now().Before(e.again))
}

// watchSince returns the watch on the own znode if it was set on this connection, and the znode
// need not be read again.
func (e *candidate) watchSince(connects int) <-chan zk.Event {
	if e.due(connects) {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.connects != connects {
		return nil
	}
	return e.own
}

// Watch implements campaign.Candidate: it makes the session beat as soon as the watch fires.
func (e *candidate) Watch(ctx context.Context) {
	for {
		e.mu.Lock()
		own, armed := e.own, e.armed
		e.mu.Unlock()
		select {
		case <-own:
			e.s.BeatNow()
		case <-armed:
			continue
		case <-ctx.Done():
			return
		}
		select {
		case <-armed:
		case <-ctx.Done():
			return
		}
	}
}
