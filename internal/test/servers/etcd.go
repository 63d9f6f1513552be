package servers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"
)

// EtcdOptions change how etcd is set up.
type EtcdOptions struct {
	Members int      // 1 (default) or 3
	Args    []string // more arguments for etcd
	TLS     *Pair    // of every member, for clients at TLSAddr; nil: no TLS
}

// Etcd is a cluster of one or three members. Its methods act on all of them; those of a member on
// that member only.
type Etcd struct {
	Members []*EtcdMember
	dir     string
}

// EtcdMember is one member of a cluster.
type EtcdMember struct {
	Process
	name         string
	client, peer int   // ports
	secure       int   // port for clients with TLS
	tls          *Pair // nil: no TLS
	joins        bool  // it was lost, so it joins a cluster that exists
}

// StartEtcd starts a cluster and returns when every member is healthy. It returns a [MissingError]
// if etcd is not installed.
func StartEtcd(ctx context.Context, o EtcdOptions) (*Etcd, error) {
	program, err := system().etcd()
	if err != nil {
		return nil, err
	}
	dir, err := newDir("etcd", nil)
	if err != nil {
		return nil, err
	}
	e := &Etcd{dir: dir}
	for i := range max(o.Members, 1) {
		m := &EtcdMember{name: "m" + strconv.Itoa(i+1), tls: o.TLS}
		m.spec = spec{
			name: "etcd " + m.name, dir: filepath.Join(dir, m.name),
			command: func() []string {
				return append([]string{program}, append(e.arguments(m), o.Args...)...)
			},
			ready: m.healthy,
			stop:  syscall.SIGTERM,
			quit:  syscall.SIGKILL,
		}
		e.Members = append(e.Members, m)
	}
	err = startOnFreePorts(ctx, 3*len(e.Members), func(ports []int) error {
		for i, m := range e.Members {
			m.client, m.peer, m.secure = ports[3*i], ports[3*i+1], ports[3*i+2]
			if err := m.wipe(); err != nil {
				return err
			}
		}
		return e.Start(ctx)
	})
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// arguments of a member. Elections are fast, so that tests of a lost leader take little time.
func (e *Etcd) arguments(m *EtcdMember) []string {
	client, state := "http://"+m.Addr(), "new"
	if m.joins {
		state = "existing"
	}
	listen, files := client, []string(nil)
	if m.tls != nil {
		listen += ",https://" + m.TLSAddr()
		files = []string{"--cert-file", m.tls.CertFile, "--key-file", m.tls.KeyFile}
	}
	return append(append(e.membership(m), files...),
		"--listen-client-urls", listen, "--advertise-client-urls", client,
		"--listen-peer-urls", m.PeerURL(), "--initial-cluster-state", state,
		"--heartbeat-interval", "50", "--election-timeout", "500", "--unsafe-no-fsync",
	)
}

// membership are the arguments that say which member of which cluster this is: those that etcd and
// the restoration of a snapshot share.
func (e *Etcd) membership(m *EtcdMember) []string {
	var cluster []string
	for _, other := range e.Members {
		cluster = append(cluster, other.name+"="+other.PeerURL())
	}
	return []string{
		"--name", m.name, "--data-dir", m.data(),
		"--initial-advertise-peer-urls", m.PeerURL(), "--initial-cluster", strings.Join(cluster, ","),
	}
}

// Addr is the list of all members' client addresses, separated by commas.
func (e *Etcd) Addr() string {
	var addrs []string
	for _, m := range e.Members {
		addrs = append(addrs, m.Addr())
	}
	return strings.Join(addrs, ",")
}

// Addr is the address for clients, 127.0.0.1:port.
func (m *EtcdMember) Addr() string { return hostPort(m.client) }

// TLSAddr is the address for clients with TLS.
func (m *EtcdMember) TLSAddr() string { return hostPort(m.secure) }

// PeerURL is where the other members reach it.
func (m *EtcdMember) PeerURL() string { return "http://" + hostPort(m.peer) }

// Lose kills the member and deletes its data. Before it can start again, it must be removed from
// the cluster and added to it.
func (m *EtcdMember) Lose() error {
	m.joins = true
	return errors.Join(m.Kill(), os.RemoveAll(m.data()))
}

func (m *EtcdMember) data() string { return filepath.Join(m.spec.dir, "data") }

// healthy asks whether the member has a leader and can commit.
func (m *EtcdMember) healthy(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.Addr()+"/health", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("/health: %s", resp.Status)
	}
	return nil
}

// wipe makes the member's directory anew.
func (m *EtcdMember) wipe() error {
	m.joins = false
	return errors.Join(os.RemoveAll(m.data()), os.MkdirAll(m.spec.dir, 0o700))
}

// Start starts every member that does not run, and returns when all are healthy.
func (e *Etcd) Start(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, m := range e.Members {
		if m.PID() == 0 {
			g.Go(func() error { return m.Start(ctx) })
		}
	}
	return g.Wait()
}

// Wipe kills all members, deletes their data and starts them again on the same ports: a cluster
// whose revisions begin again.
func (e *Etcd) Wipe(ctx context.Context) error {
	err := e.Kill()
	for _, m := range e.Members {
		err = errors.Join(err, m.wipe())
	}
	if err != nil {
		return err
	}
	return e.Start(ctx)
}

// Kill kills every member and waits; see [Process.Kill].
func (e *Etcd) Kill() error { return e.each((*EtcdMember).Kill) }

// Stop stops every member and waits; see [Process.Stop].
func (e *Etcd) Stop() error { return e.each((*EtcdMember).Stop) }

// Pause stops the processes of every member; see [Process.Pause].
func (e *Etcd) Pause() error { return e.each((*EtcdMember).Pause) }

// Resume lets every member go on; see [Process.Resume].
func (e *Etcd) Resume() error { return e.each((*EtcdMember).Resume) }

// Close ends every member and removes the directory. It may be called twice.
func (e *Etcd) Close() error {
	return errors.Join(e.each((*EtcdMember).Close), os.RemoveAll(e.dir))
}

func (e *Etcd) each(do func(*EtcdMember) error) error {
	errs := make([]error, len(e.Members))
	var g errgroup.Group
	for i, m := range e.Members {
		g.Go(func() error { errs[i] = do(m); return nil })
	}
	return errors.Join(append(errs, g.Wait())...)
}

// LogTail returns the last n lines of each member's log.
func (e *Etcd) LogTail(n int) string {
	var b strings.Builder
	for _, m := range e.Members {
		fmt.Fprintf(&b, "%s:\n%s\n", m.name, m.LogTail(n))
	}
	return b.String()
}

func (p places) etcd() (string, error) {
	if file := first(p.path, "etcd"); file != "" {
		return file, nil
	}
	return "", missing("etcd", "etcd-server", "etcd")
}
