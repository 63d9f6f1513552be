package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ZooKeeperNode is one server of an ensemble. Start returns when it serves, which needs a majority
// of the ensemble.
type ZooKeeperNode struct {
	Process
	id    int
	ports zooKeeperPorts
}

type zooKeeperPorts struct{ client, quorum, election, secure int }

// logbackConfig is for Homebrew's and Apache's packages, whose logger is at level debug by default.
// Debian's package has no logger; it gets slf4j-simple, whose default is right.
const logbackConfig = `<configuration>
<appender name="out" class="ch.qos.logback.core.ConsoleAppender">
<encoder><pattern>%d %-5level [%thread] %logger{0} %msg%n</pattern></encoder>
</appender>
<root level="INFO"><appender-ref ref="out"/></root>
</configuration>
`

func newZooKeeperNode(id int, parent string, java []string, classPath string) *ZooKeeperNode {
	n := &ZooKeeperNode{id: id}
	dir := filepath.Join(parent, "node"+strconv.Itoa(id))
	argv := slices.Concat(java, []string{
		"-Xms32m", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-XX:-UsePerfData", // no files in /tmp/hsperfdata
		"-Djava.io.tmpdir=" + dir,
		"-Djava.net.preferIPv4Stack=true",
		"-Dzookeeper.preAllocSize=1024", // KiB; the default writes 64 MiB at each start
		"-Dzookeeper.jmx.log4j.disable=true",
		"-Dorg.slf4j.simpleLogger.showDateTime=true",
		"-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
		"-cp", dir + ":" + classPath,
		"org.apache.zookeeper.server.quorum.QuorumPeerMain",
		filepath.Join(dir, "zoo.cfg"),
	})
	n.spec = spec{
		name: "zookeeper node " + strconv.Itoa(id), dir: dir,
		command: func() []string { return argv },
		ready:   n.answers,
		stop:    syscall.SIGTERM,
		quit:    syscall.SIGKILL,
	}
	return n
}

// Addr returns the address for clients, 127.0.0.1:port.
func (n *ZooKeeperNode) Addr() string { return hostPort(n.ports.client) }

// TLSAddr returns the address for clients with TLS.
func (n *ZooKeeperNode) TLSAddr() string { return hostPort(n.ports.secure) }

func (n *ZooKeeperNode) data() string { return filepath.Join(n.spec.dir, "data") }

// configure writes the node's files. All nodes must have their ports.
func (n *ZooKeeperNode) configure(o ZooKeeperOptions, all []*ZooKeeperNode) error {
	if err := os.MkdirAll(n.spec.dir, 0o755); err != nil {
		return err
	}
	tick, ms := o.TickTime, o.TickTime.Milliseconds()
	var b strings.Builder
	fmt.Fprintf(&b, "tickTime=%d\nminSessionTimeout=%d\nmaxSessionTimeout=60000\n", ms, 2*ms)
	fmt.Fprintf(&b, "initLimit=%d\nsyncLimit=%d\n",
		ticks(10*time.Second, tick), ticks(2*time.Second, tick))
	fmt.Fprintf(&b, "dataDir=%s\nclientPort=%d\nclientPortAddress=%s\n", n.data(), n.ports.client,
		host)
	b.WriteString("maxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=*\n")
	for _, other := range all {
		if len(all) > 1 {
			fmt.Fprintf(&b, "server.%d=%s:%d:%d\n", other.id, host, other.ports.quorum, other.ports.election)
		}
	}
	for _, line := range append(n.secured(o.TLS), o.Settings...) {
		b.WriteString(line + "\n")
	}
	return errors.Join(n.writeKeyStore(o.TLS),
		os.WriteFile(filepath.Join(n.spec.dir, "zoo.cfg"), []byte(b.String()), 0o644),
		os.WriteFile(filepath.Join(n.spec.dir, "logback.xml"), []byte(logbackConfig), 0o644),
		n.wipe(),
	)
}

// secured returns the settings for clients with TLS, which need no certificate of their own.
func (n *ZooKeeperNode) secured(p *Pair) []string {
	if p == nil {
		return nil
	}
	return []string{
		"secureClientPort=" + strconv.Itoa(n.ports.secure), "secureClientPortAddress=" + host,
		"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
		"ssl.keyStore.location=" + n.keyStore(), "ssl.keyStore.type=PEM", "ssl.clientAuth=none",
	}
}

func (n *ZooKeeperNode) keyStore() string { return filepath.Join(n.spec.dir, "server.pem") }

func (n *ZooKeeperNode) writeKeyStore(p *Pair) error {
	if p == nil {
		return nil
	}
	return os.WriteFile(n.keyStore(), append(slices.Clone(p.Key), p.Cert...), 0o600)
}

// ticks returns d in ticks, but at least five.
func ticks(d, tick time.Duration) int { return max(5, int(d/tick)) }

// wipe leaves a data directory that contains only the node's number.
func (n *ZooKeeperNode) wipe() error {
	if err := os.RemoveAll(n.data()); err != nil {
		return err
	}
	if err := os.MkdirAll(n.data(), 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(n.data(), "myid"), []byte(strconv.Itoa(n.id)), 0o644)
}

// Lose kills the node and deletes its data. When it starts again, it is empty, and gets the data of
// the other nodes.
func (n *ZooKeeperNode) Lose() error {
	if err := n.Kill(); err != nil {
		return err
	}
	return n.wipe()
}

func (n *ZooKeeperNode) copied() string { return filepath.Join(n.spec.dir, "backup") }

// backup may copy the last entry of the log only in part. A restored node ignores such an entry.
func (n *ZooKeeperNode) backup() error {
	if err := os.RemoveAll(n.copied()); err != nil {
		return err
	}
	return os.CopyFS(n.copied(), os.DirFS(n.data()))
}

func (n *ZooKeeperNode) restore() error {
	if err := os.RemoveAll(n.data()); err != nil {
		return err
	}
	return os.CopyFS(n.data(), os.DirFS(n.copied()))
}

// answers checks the node's mode, and its data directory, since the port might belong to another
// server. A node that cannot open one of its other two ports keeps running without serving, so
// answers looks for that in the log.
func (n *ZooKeeperNode) answers(ctx context.Context) error {
	mode, err := fourLetters(ctx, n.Addr(), "srvr")
	if err != nil {
		return err
	}
	if !strings.Contains(mode, "Mode: ") {
		if r := n.live(); r != nil && saysPortTaken(tail(n.logFile(), r.logFrom, keepLines)) {
			return errPortTaken
		}
		return fmt.Errorf("srvr: %s", strings.TrimSpace(mode))
	}
	conf, err := fourLetters(ctx, n.Addr(), "conf")
	if err == nil && !strings.Contains(conf, n.data()) {
		return fmt.Errorf("%w by another ZooKeeper", errPortTaken)
	}
	return err
}

// fourLetters sends a four-letter command and returns the whole answer.
func fourLetters(ctx context.Context, addr, word string) (string, error) {
	c, err := dial(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if _, err := io.WriteString(c, word); err != nil {
		return "", err
	}
	b, err := io.ReadAll(c)
	return string(b), err
}
