package election

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/ringfence/ringfence/internal/test/servers"
)

const zooKeeperNote = "one server, fsync on, ticks of 200 ms, at which it ends sessions; " +
	"requests are packets, pings among them; notices are watches that a deletion has triggered"

type zooKeeper struct{ *servers.ZooKeeper }

func startZooKeeper(ctx context.Context) (server, error) {
	z, err := servers.StartZooKeeper(ctx, servers.ZooKeeperOptions{})
	return zooKeeper{z}, err
}

func (z zooKeeper) address() string           { return z.Addr() }
func (z zooKeeper) url(address string) string { return "zk://" + address + "/bench" }

func (z zooKeeper) version(ctx context.Context) (string, error) {
	all, err := z.monitor(ctx)
	version, _, _ := strings.Cut(all["zk_version"], "-")
	return "ZooKeeper " + version, err
}

func (z zooKeeper) requests(ctx context.Context) (int, error) {
	return z.metrics(ctx, "zk_packets_received")
}

func (z zooKeeper) state(ctx context.Context) (s state, err error) {
	if s.candidates, err = z.metrics(ctx, "zk_ephemerals_count"); err != nil {
		return s, err
	}
	// Each session has one connection, and mntr has another. zk_global_sessions is 0 on one server.
	s.connections, err = z.metrics(ctx, "zk_num_alive_connections")
	s.connections--
	s.sessions = s.connections
	return s, err
}

func (z zooKeeper) notices(ctx context.Context) (func() (int, error), error) {
	return difference(func() (int, error) {
		return z.metrics(ctx, "zk_sum_node_deleted_watch_count", "zk_sum_node_children_watch_count")
	})
}

// difference counts from now on, with a counter that only rises.
func difference(read func() (int, error)) (func() (int, error), error) {
	before, err := read()
	return func() (int, error) {
		after, err := read()
		return after - before, err
	}, err
}

// monitor runs mntr.
func (z zooKeeper) monitor(ctx context.Context) (map[string]string, error) {
	d := net.Dialer{Timeout: 10 * time.Second}
	conn, err := d.DialContext(ctx, "tcp", z.Addr())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.WriteString(conn, "mntr"); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(conn)
	all := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "\t")
		all[name] = value
	}
	return all, err
}

// metrics returns the sum of these metrics.
func (z zooKeeper) metrics(ctx context.Context, names ...string) (sum int, err error) {
	all, err := z.monitor(ctx)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		f, err := strconv.ParseFloat(all[name], 64)
		if err != nil {
			return 0, fmt.Errorf("ZooKeeper says that %s is %q", name, all[name])
		}
		sum += int(f)
	}
	return sum, nil
}
