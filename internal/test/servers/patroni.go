package servers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Patroni is a cluster of Postgres servers that Patroni runs, with its etcd. Patroni's settings are
// its defaults: a leader's lease lasts 30 s.
type Patroni struct {
	Etcd  *Etcd
	Nodes []*PatroniNode
}

// PatroniOptions configure a cluster.
type PatroniOptions struct {
	Settings map[string]string // of Postgres
}

// PatroniNode is a node: Patroni, and Postgres below it. Each has an address of its own, and all
// use the same ports, as on hosts of their own.
type PatroniNode struct {
	Process
	Host string // 127.0.0.11 and so on

	name      string
	port, api int
	settings  map[string]string
}

// StartPatroni starts a cluster of n nodes, and returns when the others follow the primary. It
// returns a [MissingError] if Patroni is not installed.
func StartPatroni(ctx context.Context, n int, o PatroniOptions) (_ *Patroni, err error) {
	program, err := system().patroni()
	if err != nil {
		return nil, err
	}
	bin, err := system().postgres()
	if err != nil {
		return nil, err
	}
	resolved, err := filepath.EvalSymlinks(filepath.Join(bin, "postgres"))
	if err != nil {
		return nil, err
	}
	acc, err := unprivileged()
	if err != nil {
		return nil, err
	}
	p := &Patroni{}
	if p.Etcd, err = StartEtcd(ctx, EtcdOptions{}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	for i := range n {
		dir, err := newDir("patroni", acc)
		if err != nil {
			return nil, err
		}
		node := &PatroniNode{
			Host: fmt.Sprintf("127.0.0.%d", 11+i), name: "n" + strconv.Itoa(i+1),
			port: ports[0], api: ports[1], settings: o.Settings,
		}
		p.Nodes = append(p.Nodes, node)
		file := filepath.Join(dir, "patroni.yml")
		node.spec = spec{
			name: "patroni " + node.name, dir: dir, account: acc,
			command: func() []string { return []string{program, file} },
			ready:   node.runs,
			stop:    syscall.SIGTERM,
			quit:    syscall.SIGTERM, // which ends Postgres, too
			apart:   node.postmaster,
		}
		text := node.config(p.Etcd.Addr(), filepath.Dir(resolved))
		if err := errors.Join(acc.writeFile(file, text), node.Start(ctx)); err != nil {
			return nil, err
		}
	}
	return p, p.await(ctx)
}

// await returns when all replicas follow the primary.
func (p *Patroni) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	for {
		primary, err := p.Primary(ctx)
		var of patroniState
		if err == nil {
			of, err = primary.state(ctx)
		}
		streaming := 0
		for _, r := range of.Replication {
			if r.State == "streaming" {
				streaming++
			}
		}
		if err == nil && streaming == len(p.Nodes)-1 {
			return nil
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return fmt.Errorf("start patroni: %d replicas follow: %w", streaming,
				errors.Join(context.Cause(ctx), err))
		}
	}
}

func (n *PatroniNode) config(etcd, bin string) string {
	parameters := "max_connections: 200"
	for _, name := range slices.Sorted(maps.Keys(n.settings)) {
		parameters += fmt.Sprintf(", %s: '%s'", name, n.settings[name])
	}
	return fmt.Sprintf(`scope: shop
name: %[1]s
restapi: {listen: '%[2]s', connect_address: '%[2]s'}
etcd3: {hosts: '%[3]s'}
bootstrap:
  dcs:
    postgresql:
      use_pg_rewind: true
      parameters: {%[7]s}
  initdb: [encoding: UTF8, locale: C, no-sync]
  pg_hba: ['local all all trust', 'host all all 127.0.0.0/8 trust', 'host replication all 127.0.0.0/8 trust']
postgresql:
  listen: '%[4]s'
  connect_address: '%[4]s'
  data_dir: '%[5]s/data'
  bin_dir: '%[6]s'
  authentication: {superuser: {username: postgres, password: p}, replication: {username: replicator, password: p}}
  parameters: {unix_socket_directories: '%[5]s'}
`, n.name, n.API(), etcd, n.Addr(), n.spec.dir, bin, parameters)
}

// Addr returns the TCP address of Postgres.
func (n *PatroniNode) Addr() string { return net.JoinHostPort(n.Host, strconv.Itoa(n.port)) }

// API returns the TCP address of Patroni's own API.
func (n *PatroniNode) API() string { return net.JoinHostPort(n.Host, strconv.Itoa(n.api)) }

// URL returns a connection URL over TCP without TLS.
func (n *PatroniNode) URL(user, database string) string {
	return postgresURL(user, n.Addr(), database)
}

// postmaster returns Postgres' first process, which Patroni detaches from itself, or 0.
func (n *PatroniNode) postmaster() int {
	data := filepath.Join(n.spec.dir, "data")
	text, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(line)
	if at, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); err != nil || at != data {
		return 0 // it has ended, and another process may have its number
	}
	return pid
}

// KillPostmaster kills Postgres' first process. Patroni starts it again, or another node takes
// over.
func (n *PatroniNode) KillPostmaster() error {
	pid := n.postmaster()
	if pid == 0 {
		return fmt.Errorf("%s has no Postgres", n.name)
	}
	return syscall.Kill(pid, syscall.SIGKILL)
}

// KillPatroni kills Patroni alone. Postgres goes on, as the primary if it was that.
func (n *PatroniNode) KillPatroni() error { return syscall.Kill(n.PID(), syscall.SIGKILL) }

// patroniStops is how long Patroni may take to end. One in whose node pg_rewind waits for a primary
// does not end by itself.
const patroniStops = 10 * time.Second

// Close ends the node.
func (n *PatroniNode) Close() error {
	if n.PID() == 0 && n.postmaster() != 0 {
		_ = n.KillPostmaster()
	}
	_ = n.end(syscall.SIGTERM, patroniStops) // and kills it then
	return n.Process.Close()
}

// runs returns nil if Postgres runs there, as the primary or as a replica.
func (n *PatroniNode) runs(ctx context.Context) error {
	is, err := n.state(ctx)
	if err == nil && is.State != "running" {
		err = fmt.Errorf("%s is %s", n.name, is.State)
	}
	return err
}

// patroniState is what Patroni says of its node.
type patroniState struct {
	State       string
	Replication []struct{ State string }
}

func (n *PatroniNode) state(ctx context.Context) (is patroniState, err error) {
	text, err := n.ask(ctx, http.MethodGet, "/patroni", nil)
	if err == nil {
		err = json.Unmarshal(text, &is)
	}
	return is, err
}

// IsPrimary asks the node.
func (n *PatroniNode) IsPrimary(ctx context.Context) bool {
	_, err := n.ask(ctx, http.MethodGet, "/primary", nil)
	return err == nil
}

func (n *PatroniNode) ask(
	ctx context.Context, method, path string, body []byte,
) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+n.API()+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, answer.Status, text)
	}
	return text, err
}

// Primary returns the node that is the primary.
func (p *Patroni) Primary(ctx context.Context) (*PatroniNode, error) {
	for _, n := range p.Nodes {
		if n.PID() != 0 && n.IsPrimary(ctx) {
			return n, nil
		}
	}
	return nil, errors.New("no node of Patroni is the primary")
}

// Switchover makes another node the primary, and returns when Patroni says so.
func (p *Patroni) Switchover(ctx context.Context, from, to *PatroniNode) error {
	body, err := json.Marshal(map[string]string{"leader": from.name, "candidate": to.name})
	if err == nil {
		_, err = from.ask(ctx, http.MethodPost, "/switchover", body)
	}
	return err
}

// Close ends the cluster.
func (p *Patroni) Close() error {
	var all []error
	for _, n := range p.Nodes {
		all = append(all, n.Close())
	}
	return errors.Join(append(all, p.Etcd.Close())...)
}

func (p places) patroni() (string, error) {
	if file := first(p.path, "patroni"); file != "" {
		return file, nil
	}
	return "", missingFor("deps-bench", "patroni", "patroni python3-etcd", "patroni")
}
