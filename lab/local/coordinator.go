package local

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
)

// coordinator is the server, or the ensemble, that holds the elections.
type coordinator interface {
	addresses() []string                    // of its servers, for the lab itself
	own() string                            // URL for the lab itself, without TLS where it can choose
	legs() []string                         // addresses for guards and workers, in the same order
	url(legs []string) string               // for guards and workers that reach it there
	processes() []process                   // in the order of addresses
	leader(context.Context) (string, error) // the address of the server that leads
	wipe(context.Context) error
	backup(context.Context) error
	restore(context.Context) error
	close() error
}

// ensemble is a coordinator of several servers, one of which can be lost.
type ensemble interface {
	lose(i int) error
	rebuild(ctx context.Context, i int) error
}

// startCoordinator starts the coordinator that the topology names.
func startCoordinator(
	ctx context.Context, t scenario.Topology, tls *encryption,
) (coordinator, error) {
	switch t.Elections {
	case scenario.InEtcd:
		e, err := servers.StartEtcd(ctx, servers.EtcdOptions{
			Members: max(1, t.CoordinatorServers), TLS: tls.forServer(),
		})
		return etcd{e, tls}, err
	case scenario.InPostgres:
		return startElectionsDB(ctx, t.Standby, tls)
	}
	z, err := servers.StartZooKeeper(ctx, servers.ZooKeeperOptions{
		Nodes: max(1, t.CoordinatorServers), TickTime: t.TickTime(), TLS: tls.forServer(),
	})
	return zooKeeper{z, tls}, err
}

type zooKeeper struct {
	*servers.ZooKeeper
	tls *encryption
}

func (z zooKeeper) addresses() []string { return strings.Split(z.Addr(), ",") }

func (z zooKeeper) own() string { return "zk://" + z.Addr() + root }

func (z zooKeeper) legs() (all []string) {
	for _, n := range z.Nodes {
		if z.tls == nil {
			all = append(all, n.Addr())
			continue
		}
		all = append(all, n.TLSAddr())
	}
	return all
}

func (z zooKeeper) url(legs []string) string {
	return z.tls.scheme("zk", "zks") + "://" + strings.Join(legs, ",") + root + z.tls.options()
}

func (z zooKeeper) processes() (all []process) {
	for _, n := range z.Nodes {
		all = append(all, n)
	}
	return all
}

func (z zooKeeper) leader(ctx context.Context) (string, error) {
	return system.LeadingServer(ctx, z.addresses(), system.LeadsZooKeeper)
}

func (z zooKeeper) wipe(ctx context.Context) error    { return z.Wipe(ctx) }
func (z zooKeeper) backup(context.Context) error      { return z.Backup() }
func (z zooKeeper) restore(ctx context.Context) error { return z.Restore(ctx) }
func (z zooKeeper) close() error                      { return z.Close() }

func (z zooKeeper) lose(i int) error { return z.Nodes[i].Lose() }

func (z zooKeeper) rebuild(ctx context.Context, i int) error { return z.Nodes[i].Start(ctx) }

type etcd struct {
	*servers.Etcd
	tls *encryption
}

func (e etcd) addresses() []string { return strings.Split(e.Addr(), ",") }

func (e etcd) own() string { return "etcd://" + e.Addr() + root }

func (e etcd) legs() (all []string) {
	for _, m := range e.Members {
		if e.tls == nil {
			all = append(all, m.Addr())
			continue
		}
		all = append(all, m.TLSAddr())
	}
	return all
}

func (e etcd) url(legs []string) string {
	return e.tls.scheme("etcd", "etcds") + "://" + strings.Join(legs, ",") + root + e.tls.options()
}

func (e etcd) processes() (all []process) {
	for _, m := range e.Members {
		all = append(all, m)
	}
	return all
}

func (e etcd) leader(ctx context.Context) (string, error) {
	return system.LeadingServer(ctx, e.addresses(), system.LeadsEtcd)
}

func (e etcd) wipe(ctx context.Context) error    { return e.Wipe(ctx) }
func (e etcd) backup(ctx context.Context) error  { return e.Backup(ctx) }
func (e etcd) restore(ctx context.Context) error { return e.Restore(ctx) }
func (e etcd) close() error                      { return e.Close() }

func (e etcd) lose(i int) error { return e.Members[i].Lose() }

func (e etcd) rebuild(ctx context.Context, i int) error {
	m := e.Members[i]
	others := slices.DeleteFunc(e.addresses(), func(a string) bool { return a == m.Addr() })
	return errors.Join(system.ReplaceEtcdMember(ctx, others, m.PeerURL()), m.Start(ctx))
}
