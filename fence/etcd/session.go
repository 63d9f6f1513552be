package etcd

import (
	"cmp"
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/internal/campaign"
)

// session is a lease that all candidates of a Coordinator share.
type session struct {
	*campaign.Life[*candidate]
	c     *Coordinator
	lease clientv3.LeaseID
}

// grant gets a lease. One whose reply was lost runs out by itself.
func (c *Coordinator) grant(ctx context.Context) (*session, error) {
	seconds := int64((c.frame.Timeout + time.Second - 1) / time.Second)
	return ask(ctx, c, "open a session", func(ctx context.Context) (*session, error) {
		start := time.Now()
		lease, err := c.client.Grant(ctx, seconds)
		if err != nil {
			return nil, err
		}
		ttl := time.Duration(lease.TTL) * time.Second
		life := campaign.NewLife[*candidate](ttl, start)
		return &session{Life: life, c: c, lease: lease.ID}, nil
	})
}

// Candidate implements campaign.Session.
func (s *session) Candidate(r fence.Resource, holder string) *candidate {
	return &candidate{s: s, Standing: campaign.Standing{
		Resource: r, Holder: holder, Key: s.c.candidateKey(r, s.lease),
	}}
}

// Beat implements campaign.Session. It tries to renew twice: a frozen member keeps the first try
// waiting, and the library sends the second one to another. What is deleted afterwards belongs to
// nobody, so an error there suspends no term.
func (s *session) Beat(start time.Time) error {
	members, there, err := s.renew(s.Timeout / 8)
	if err != nil && s.Ended() == nil && !refused(err) {
		members, there, err = s.renew(s.Timeout / 4)
	}
	if err != nil {
		return err
	}
	s.Confirm(start)
	ctx, cancel := context.WithTimeout(s.c.frame.Context(), s.Timeout/8)
	defer cancel()
	for _, member := range members {
		if there[member.Key] {
			member.Confirm(start)
		} else {
			member.Lose(s.whyGone(ctx))
		}
	}
	if err := errors.Join(s.sweep(ctx), publish(ctx, members)); err != nil {
		s.c.frame.Log.Debug("the next heartbeat cleans up", "error", err)
	}
	return nil
}

// publish shows leaders as ready for which etcd had no space.
func publish(ctx context.Context, members []*candidate) error {
	for _, e := range members {
		if !e.overdue.Load() {
			continue
		}
		if published, err := e.publish(ctx); !published {
			return err // nil: etcd still has no space
		}
		e.overdue.Store(false)
	}
	return nil
}

// renew renews the lease, and then reads which candidates there are. The order matters: a candidate
// that is read after the renewal began was under the lease at that time, so it lasts as long as the
// lease. The read also shows whether the renewal counts; the package documentation says why.
func (s *session) renew(
	limit time.Duration,
) (members []*candidate, there map[string]bool, err error) {
	ctx, cancel := context.WithTimeout(s.c.frame.Context(), limit)
	defer cancel()
	request, err := s.c.signed(ctx)
	if err != nil {
		return nil, nil, err
	}
	renewal, err := s.c.client.KeepAliveOnce(request.ctx, s.lease)
	request.check(err)
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		s.End(errLeaseOver)
	}
	if err != nil {
		return nil, nil, err
	}
	members = s.Enrolled()
	there, term, err := s.c.exist(ctx, members)
	if err == nil && renewal.RaftTerm != term {
		err = errOldRenewal
	}
	return members, there, err
}

// maxOps is how many operations a transaction may have: less than etcd's default of 128.
const maxOps = 100

// exist tells which of these candidates exist, and the Raft term of the cluster. It makes one
// linearizable read at least: of the issuer's key, which is there without candidates, too.
func (c *Coordinator) exist(
	ctx context.Context, all []*candidate,
) (there map[string]bool, term uint64, err error) {
	there = make(map[string]bool, len(all))
	for first := true; first || len(all) > 0; first = false {
		some := all[:min(len(all), maxOps)]
		all = all[len(some):]
		gets := []clientv3.Op{clientv3.OpGet(c.issuerKey(), clientv3.WithKeysOnly())}
		for _, e := range some {
			gets = append(gets, clientv3.OpGet(e.Key, clientv3.WithKeysOnly()))
		}
		resp, err := c.client.Txn(ctx).Then(gets...).Commit()
		if err != nil {
			return nil, 0, err
		}
		term = resp.Header.RaftTerm
		for i, e := range some {
			kvs := resp.Responses[i+1].GetResponseRange().Kvs
			there[e.Key] = len(kvs) == 1 && kvs[0].CreateRevision == int64(e.Token())
		}
	}
	return there, term, nil
}

// whyGone says why a key of the session is gone: it was deleted, or the lease has ended. etcd
// rounds the time that is left down to seconds, so 0 is a lease in its last second, as one of 1 s
// always is. One that has ended has -1.
func (s *session) whyGone(ctx context.Context) error {
	lease, err := s.c.client.TimeToLive(ctx, s.lease)
	if err == nil && lease.TTL < 0 || errors.Is(err, rpctypes.ErrLeaseNotFound) {
		s.End(errLeaseOver)
	}
	return cmp.Or(s.Ended(), fence.ErrDeposed)
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
		if s.Knows(string(key)) {
			continue
		}
		if _, err := s.c.client.Delete(ctx, string(key)); err != nil {
			return err
		}
	}
	return nil
}

// Close implements campaign.Session: it ends the lease at etcd, and with it all candidates. If it
// fails, the lease runs out.
func (s *session) Close() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.c.frame.Context()), time.Second)
	defer cancel()
	_, _ = s.c.client.Revoke(ctx, s.lease)
}
