package inject

import (
	"context"
	"errors"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/coordinators"
	"github.com/ringfence/ringfence/lab/record"
	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
)

// burnt is how many terms of another election are won and given up after a backup, so that later
// tokens are higher than the first ones of a restored coordinator.
const burnt = 100

// burnSome advances the coordinator's counter.
func (r *Injector) burnSome(ctx context.Context) error {
	return r.burnTokens(ctx, func(n int, _ fence.Token) bool { return n >= burnt })
}

// nearly is how far below a token Advance stops.
const nearly = 10

// advance lets the next tries of workers pass the token of the last leader.
func (r *Injector) advance(ctx context.Context) error {
	var last fence.Claim
	r.rec.Look(func(s *record.Seen) { last = s.Term() })
	return r.burnTokens(ctx, func(_ int, t fence.Token) bool { return t+nearly >= last.Token })
}

// burnTokens wins terms of another election and gives them up, until there were enough.
func (r *Injector) burnTokens(
	ctx context.Context, enough func(n int, last fence.Token) bool,
) error {
	co, err := system.OpenCoordinator(ctx, r.sys.Addresses().Coordinator, coordinators.Options{})
	if err != nil {
		return err
	}
	defer co.Close()
	for n := 1; ; n++ {
		term, err := co.Campaign(ctx, "burnt", "operator")
		if err != nil {
			return err
		}
		if err := term.Resign(ctx); err != nil || enough(n, term.Token()) {
			return err
		}
	}
}

// depose ends the leader's term, as leader resign does.
func (r *Injector) depose(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, waitTime, fmt.Errorf("not within %v", waitTime))
	defer cancel()
	co, err := system.OpenCoordinator(ctx, r.sys.Addresses().Coordinator, coordinators.Options{})
	if err != nil {
		return err
	}
	defer co.Close()
	for {
		token, err := leadingToken(ctx, co)
		if err != nil {
			return err
		}
		if ok, err := co.Depose(ctx, scenario.Resource, token); ok || err != nil {
			return err
		}
	}
}

// servers does something to single servers of the coordinator, if the system can.
func (r *Injector) servers(do func(system.CoordinatorServers) error) error {
	s, ok := r.sys.(system.CoordinatorServers)
	if !ok {
		return errors.New("this injector cannot do that to a server of the coordinator")
	}
	return do(s)
}

// lag stops the stream to the standby, and then advances the coordinator's counter, so that the
// standby's is behind by more than the numbers that a sequence skips after a crash.
func (r *Injector) lag(ctx context.Context) error {
	err := r.servers(func(s system.CoordinatorServers) error { return s.Lag(ctx) })
	if err != nil {
		return err
	}
	return r.burnSome(ctx)
}

// leadingToken waits until somebody leads: a system that was frozen for a session has no candidate
// at first.
func leadingToken(ctx context.Context, co elector.Observer) (fence.Token, error) {
	for {
		queue, err := co.Candidates(ctx, scenario.Resource)
		if err != nil {
			return 0, err
		}
		if len(queue) > 0 {
			return queue[0].Token, nil
		}
		if err := system.Sleep(ctx, lookAgain); err != nil {
			return 0, fmt.Errorf("nobody leads: %w", err)
		}
	}
}

// withEtcd gives do a client of etcd.
func (r *Injector) withEtcd(ctx context.Context, do func(*clientv3.Client) error) error {
	hosts, _, _ := strings.Cut(strings.TrimPrefix(r.sys.Addresses().Coordinator, "etcd://"), "/")
	c, err := system.NewEtcd(ctx, strings.Split(hosts, ","))
	if err != nil {
		return err
	}
	defer c.Close()
	return do(c)
}

// compact makes revisions and then deletes all but the newest, as etcdctl compact --physical does.
func (r *Injector) compact(ctx context.Context) error {
	return r.withEtcd(ctx, func(c *clientv3.Client) error {
		var newest int64
		for range burnt {
			put, err := c.Put(ctx, "written-by-the-lab", "")
			if err != nil {
				return err
			}
			newest = put.Header.Revision
		}
		_, err := c.Compact(ctx, newest, clientv3.WithCompactPhysical())
		r.rec.Note("operator", fmt.Sprintf("etcd was compacted at revision %d", newest))
		return err
	})
}
