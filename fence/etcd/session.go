package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/cluster"
)

// session is a lease that all candidates of a Coordinator share, so a process that stands in a
// thousand elections renews one lease. It is over once, for good: then its candidates are gone or
// will be before anybody else leads, and the next campaign gets a new session.
type session struct {
	c     *Coordinator
	lease clientv3.LeaseID
	ttl   time.Duration // as etcd granted it
	nudge chan struct{} // asks for a beat now
	over  chan struct{} // closed when the session is over

	mu        sync.Mutex
	cause     error                 // once over
	confirmed time.Time             // start of the last round trip that renewed the lease
	beaten    chan struct{}         // closed after the next beat
	keys      map[string]*candidate // all keys that may exist under the lease
}

// sessionOf returns the current session, or opens one.
func (c *Coordinator) sessionOf(ctx context.Context) (*session, error) {
	var s *session
	select {
	case s = <-c.sessions:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { c.sessions <- s }()
	if s != nil && s.ended() == nil {
		return s, nil
	}
	fresh, err := c.grant(ctx)
	if err != nil {
		return nil, err
	}
	s = fresh
	c.work.Go(s.keep) // the campaign that calls is still counted
	return s, nil
}

// grant gets a lease. One whose reply was lost runs out by itself.
func (c *Coordinator) grant(ctx context.Context) (*session, error) {
	seconds := int64((c.timeout + time.Second - 1) / time.Second)
	return cluster.Ask(ctx, c.client, "open a session", func(ctx context.Context) (*session, error) {
		start := time.Now()
		lease, err := c.client.Grant(ctx, seconds)
		if err != nil {
			return nil, err
		}
		return &session{
			c: c, lease: lease.ID, ttl: time.Duration(lease.TTL) * time.Second, confirmed: start,
			nudge: make(chan struct{}, 1), over: make(chan struct{}), beaten: make(chan struct{}),
			keys: map[string]*candidate{},
		}, nil
	})
}

// ended returns why the session is over, or nil.
func (s *session) ended() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}

// end makes the session over. The first cause stays.
func (s *session) end(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause == nil {
		s.cause = cause
		close(s.over)
	}
}

// keep beats until the session is over, or the Coordinator closed; then it revokes the lease.
func (s *session) keep() {
	defer s.revoke()
	for s.ended() == nil {
		start := time.Now()
		err := s.beat()
		s.told(err)
		next := time.NewTimer(max(time.Until(start.Add(s.ttl/4)), s.ttl/100))
		select {
		case <-next.C:
		case <-s.nudge:
		case <-s.c.ctx.Done():
			s.end(fmt.Errorf("%w: %w", fence.ErrResigned, ErrClosed))
		}
		next.Stop()
	}
}

// beat renews the lease, and then reads which candidates there are. The order matters: a candidate
// that is read after the renewal began was under the lease at that time, so it lasts as long as the
// lease.
func (s *session) beat() error {
	ctx, cancel := context.WithTimeout(s.c.ctx, s.ttl/4)
	defer cancel()
	start := time.Now()
	if _, err := s.c.client.KeepAliveOnce(ctx, s.lease); err != nil {
		return err
	}
	members := s.candidates()
	there, err := s.c.exist(ctx, members)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.confirmed = start
	s.mu.Unlock()
	for _, member := range members {
		if there[member.key] {
			member.confirm(start)
		} else {
			member.lose(s.whyGone(ctx))
		}
	}
	return s.sweep(ctx)
}

// told tells the candidates of a beat that failed, and wakes those who wait for a beat.
func (s *session) told(err error) {
	s.mu.Lock()
	stale := time.Since(s.confirmed)
	close(s.beaten)
	s.beaten = make(chan struct{})
	s.mu.Unlock()
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		s.end(errLeaseOver)
	case stale >= s.ttl:
		s.end(fmt.Errorf("%w: etcd has not answered for %s", fence.ErrExpired, s.ttl))
	case err != nil:
		s.c.log.Debug("the lease could not be renewed", "error", err)
		for _, member := range s.candidates() {
			member.suspend()
		}
	}
}

// errLeaseOver is the end of a session whose lease etcd has ended: it was revoked, or ran out.
var errLeaseOver = fmt.Errorf("%w: etcd has ended the lease", fence.ErrExpired)

// whyGone says why a key of the session is gone: it was deleted, or the lease has ended.
func (s *session) whyGone(ctx context.Context) error {
	lease, err := s.c.client.TimeToLive(ctx, s.lease)
	if err == nil && lease.TTL <= 0 || errors.Is(err, rpctypes.ErrLeaseNotFound) {
		s.end(errLeaseOver)
	}
	return cmp.Or(s.ended(), fence.ErrDeposed)
}

// candidates lists the enrolled candidates.
func (s *session) candidates() []*candidate {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*candidate
	for _, key := range slices.Sorted(maps.Keys(s.keys)) {
		if e := s.keys[key]; e.token != 0 {
			all = append(all, e)
		}
	}
	return all
}

// sweep deletes keys under the lease that belong to no candidate: one that left while etcd was out
// of reach, or an enrolment that etcd has heard of after its campaign had given up. Without the
// sweep such a key would hold up the election for as long as the lease is renewed.
func (s *session) sweep(ctx context.Context) error {
	lease, err := s.c.client.TimeToLive(ctx, s.lease, clientv3.WithAttachedKeys())
	if err != nil {
		return err
	}
	for _, key := range lease.Keys {
		s.mu.Lock()
		_, known := s.keys[string(key)]
		s.mu.Unlock()
		if known {
			continue
		}
		if _, err := s.c.client.Delete(ctx, string(key)); err != nil {
			return err
		}
	}
	return nil
}

// renewed waits until the lease was renewed less than half a session timeout ago, and returns when
// that round trip began. A term that begins then has half of its time left at least.
func (s *session) renewed(ctx context.Context) (time.Time, error) {
	for {
		s.mu.Lock()
		confirmed, beaten := s.confirmed, s.beaten
		s.mu.Unlock()
		if time.Since(confirmed) < s.ttl/2 {
			return confirmed, nil
		}
		s.hurry()
		select {
		case <-beaten:
		case <-s.over:
			return time.Time{}, s.ended()
		case <-ctx.Done():
			return time.Time{}, context.Cause(ctx)
		}
	}
}

// hurry asks for a beat now.
func (s *session) hurry() {
	select {
	case s.nudge <- struct{}{}:
	default:
	}
}

// revokeTime bounds the last round trip of a session. If it fails, the lease runs out.
const revokeTime = time.Second

// revoke ends the lease at etcd, and with it all candidates.
func (s *session) revoke() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.c.ctx), revokeTime)
	defer cancel()
	_, _ = s.c.client.Revoke(ctx, s.lease)
}
