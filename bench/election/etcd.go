package election

import (
	"bufio"
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/ringfence/ringfence/internal/test/servers"
)

const etcdNote = "one member, fsync on; it looks for leases that have run out every 500 ms; " +
	"requests are the messages that it has received, also in streams; notices are watch events that " +
	"it has sent"

type etcd struct{ *servers.Etcd }

func startEtcd(ctx context.Context) (server, error) {
	e, err := servers.StartEtcd(ctx, servers.EtcdOptions{Args: []string{"--unsafe-no-fsync=false"}})
	return etcd{e}, err
}

func (e etcd) address() string           { return e.Addr() }
func (e etcd) url(address string) string { return "etcd://" + address + "/bench" }

func (e etcd) version(ctx context.Context) (string, error) {
	_, labels, err := e.metrics(ctx)
	_, version, _ := strings.Cut(labels["etcd_server_version"], `server_version="`)
	version, _, _ = strings.Cut(version, `"`)
	return "etcd " + version, err
}

func (e etcd) requests(ctx context.Context) (int, error) {
	all, _, err := e.metrics(ctx)
	return all["grpc_server_msg_received_total"], err
}

func (e etcd) state(ctx context.Context) (state, error) {
	all, _, err := e.metrics(ctx)
	return state{
		candidates: all["etcd_debugging_mvcc_keys_total"],
		sessions:   all["etcd_debugging_lease_granted_total"] - all["etcd_debugging_lease_revoked_total"],
	}, err
}

func (e etcd) notices(ctx context.Context) (func() (int, error), error) {
	return difference(func() (int, error) {
		all, _, err := e.metrics(ctx)
		return all["etcd_debugging_mvcc_events_total"], err
	})
}

// metrics reads all metrics: the sum of each over its labels, and the labels it came with last.
func (e etcd) metrics(
	ctx context.Context,
) (sums map[string]int, labels map[string]string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+e.Addr()+"/metrics", nil)
	if err != nil {
		return nil, nil, err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer answer.Body.Close()
	sums, labels = map[string]int{}, map[string]string{}
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		at := strings.LastIndexByte(lines.Text(), ' ')
		if at < 0 || lines.Text()[0] == '#' {
			continue
		}
		name, with, _ := strings.Cut(lines.Text()[:at], "{")
		if value, err := strconv.ParseFloat(lines.Text()[at+1:], 64); err == nil {
			sums[name] += int(value)
			labels[name] = with
		}
	}
	return sums, labels, lines.Err()
}
