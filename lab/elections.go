package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/coordinators"
)

// burnt is how many terms of another election are won and given up after a backup, so that later
// tokens are higher than the first ones of a restored coordinator.
const burnt = 100

// burnSome advances the coordinator's counter.
func (r *run) burnSome(ctx context.Context) error {
	return r.burnTokens(ctx, func(n int, _ fence.Token) bool { return n >= burnt })
}

// nearly is how far below a token Advance stops.
const nearly = 10

// advance lets the next tries of workers pass the token of the last leader.
func (r *run) advance(ctx context.Context) error {
	var last fence.Claim
	r.rec.look(func(s *seen) { last = s.term() })
	return r.burnTokens(ctx, func(_ int, t fence.Token) bool { return t+nearly >= last.Token })
}

// burnTokens wins terms of another election and gives them up, until there were enough.
func (r *run) burnTokens(
	ctx context.Context, enough func(n int, last fence.Token) bool,
) error {
	co, err := OpenCoordinator(ctx, r.sys.Addresses().Coordinator, coordinators.Options{})
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
func (r *run) depose(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, waitTime, fmt.Errorf("not within %v", waitTime))
	defer cancel()
	co, err := OpenCoordinator(ctx, r.sys.Addresses().Coordinator, coordinators.Options{})
	if err != nil {
		return err
	}
	defer co.Close()
	for {
		token, err := leadingToken(ctx, co)
		if err != nil {
			return err
		}
		if ok, err := co.Depose(ctx, Resource, token); ok || err != nil {
			return err
		}
	}
}

// servers does something to single servers of the coordinator, if the system can.
func (r *run) servers(do func(CoordinatorServers) error) error {
	s, ok := r.sys.(CoordinatorServers)
	if !ok {
		return errors.New("this injector cannot do that to a server of the coordinator")
	}
	return do(s)
}

// lag stops the stream to the standby, and then advances the coordinator's counter, so that the
// standby's is behind by more than the numbers that a sequence skips after a crash.
func (r *run) lag(ctx context.Context) error {
	err := r.servers(func(s CoordinatorServers) error { return s.Lag(ctx) })
	if err != nil {
		return err
	}
	return r.burnSome(ctx)
}

// EndStream stops the stream to a standby of Postgres, also after a restart, and returns once it
// has ended. The setting primary_conninfo must not be on the command line.
func EndStream(ctx context.Context, standby string) error {
	return Exec(ctx, standby, "alter system set primary_conninfo = ''", "select pg_reload_conf()",
		`do $$ begin
			while exists (select from pg_stat_wal_receiver) loop perform pg_sleep(0.01); end loop;
		end $$`)
}

// AwaitStream returns once a standby of Postgres streams.
func AwaitStream(ctx context.Context, standby string) error {
	return Exec(ctx, standby, `do $$ begin
		while not exists (select from pg_stat_wal_receiver where status = 'streaming')
		loop perform pg_sleep(0.01); end loop;
	end $$`)
}

// leadingToken waits until somebody leads: a system that was frozen for a session has no candidate
// at first.
func leadingToken(ctx context.Context, co fence.Observer) (fence.Token, error) {
	for {
		queue, err := co.Candidates(ctx, Resource)
		if err != nil {
			return 0, err
		}
		if len(queue) > 0 {
			return queue[0].Token, nil
		}
		if err := sleep(ctx, lookAgain); err != nil {
			return 0, fmt.Errorf("nobody leads: %w", err)
		}
	}
}

// newEtcd returns a client that prints nothing.
func newEtcd(ctx context.Context, members []string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: members, Context: ctx, Logger: zap.NewNop()})
}

// withEtcd gives do a client of etcd.
func (r *run) withEtcd(ctx context.Context, do func(*clientv3.Client) error) error {
	hosts, _, _ := strings.Cut(strings.TrimPrefix(r.sys.Addresses().Coordinator, "etcd://"), "/")
	c, err := newEtcd(ctx, strings.Split(hosts, ","))
	if err != nil {
		return err
	}
	defer c.Close()
	return do(c)
}

// ReplaceEtcdMember removes the member with a peer URL from a cluster, through the others, and adds
// an empty one in its place. It tries again while the cluster refuses: it takes no member for some
// seconds after another one was lost.
func ReplaceEtcdMember(ctx context.Context, others []string, peerURL string) error {
	c, err := newEtcd(ctx, others)
	if err != nil {
		return err
	}
	defer c.Close()
	list, err := c.MemberList(ctx)
	if err != nil {
		return err
	}
	for _, m := range list.Members {
		if slices.Contains(m.PeerURLs, peerURL) {
			if _, err := c.MemberRemove(ctx, m.ID); err != nil {
				return fmt.Errorf("remove %s: %w", m.Name, err)
			}
		}
	}
	for {
		_, err := c.MemberAdd(ctx, []string{peerURL})
		if err == nil {
			return nil
		}
		if sleep(ctx, lookAgain) != nil {
			return fmt.Errorf("add a member: %w", err)
		}
	}
}

// compact makes revisions and then deletes all but the newest, as etcdctl compact --physical does.
func (r *run) compact(ctx context.Context) error {
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
		r.note("operator", fmt.Sprintf("etcd was compacted at revision %d", newest))
		return err
	})
}
