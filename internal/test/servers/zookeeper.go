package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// ZooKeeperOptions configure ZooKeeper.
type ZooKeeperOptions struct {
	Nodes    int           // 1 (default) or 3
	TickTime time.Duration // default 200 ms; sessions may be from 2 ticks to 60 s long
	Settings []string      // more lines of zoo.cfg, for every node
	Java     []string      // more options of the Java runtime, such as -Djute.maxbuffer=200000
	TLS      *Pair         // of every node, for clients at TLSAddr; nil: no TLS
}

// ZooKeeper is an ensemble of one or three servers. Its methods act on all of them, and the methods
// of a node only on that node.
type ZooKeeper struct {
	Nodes []*ZooKeeperNode
	dir   string
}

// StartZooKeeper starts an ensemble and returns when every node serves. It returns a [MissingError]
// if ZooKeeper or Java is not installed.
func StartZooKeeper(ctx context.Context, o ZooKeeperOptions) (*ZooKeeper, error) {
	if o.Nodes == 0 {
		o.Nodes = 1
	}
	if o.TickTime == 0 {
		o.TickTime = 200 * time.Millisecond
	}
	classPath, err := system().zookeeper()
	if err != nil {
		return nil, err
	}
	java, err := system().javaProgram()
	if err != nil {
		return nil, err
	}
	dir, err := newDir("zk", nil)
	if err != nil {
		return nil, err
	}
	z := &ZooKeeper{dir: dir}
	for i := range o.Nodes {
		z.Nodes = append(z.Nodes,
			newZooKeeperNode(i+1, dir, append([]string{java}, o.Java...), classPath))
	}
	if err := z.create(ctx, o); err != nil {
		return nil, errors.Join(err, z.Close())
	}
	return z, nil
}

func (z *ZooKeeper) create(ctx context.Context, o ZooKeeperOptions) error {
	return startOnFreePorts(ctx, 4*len(z.Nodes), func(ports []int) error {
		for i, n := range z.Nodes {
			n.ports = zooKeeperPorts{ports[4*i], ports[4*i+1], ports[4*i+2], ports[4*i+3]}
		}
		for _, n := range z.Nodes {
			if err := n.configure(o, z.Nodes); err != nil {
				return err
			}
		}
		return z.Start(ctx)
	})
}

// Addr returns the client addresses of all nodes, separated by commas.
func (z *ZooKeeper) Addr() string {
	var addrs []string
	for _, n := range z.Nodes {
		addrs = append(addrs, n.Addr())
	}
	return strings.Join(addrs, ",")
}

// Start starts every node that does not run, and returns when all serve. If one fails, it kills
// those that it has started.
func (z *ZooKeeper) Start(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, n := range z.Nodes {
		if n.PID() == 0 {
			g.Go(func() error { return n.Start(ctx) })
		}
	}
	return g.Wait()
}

// Wipe kills all nodes, deletes their data and starts them again on the same ports. The transaction
// ids of the ensemble begin again at 0.
func (z *ZooKeeper) Wipe(ctx context.Context) error {
	if err := z.Kill(); err != nil {
		return err
	}
	for _, n := range z.Nodes {
		if err := n.wipe(); err != nil {
			return fmt.Errorf("wipe %s: %w", n.spec.name, err)
		}
	}
	return z.Start(ctx)
}

// Backup copies the data of every node while it runs, for [ZooKeeper.Restore].
func (z *ZooKeeper) Backup() error { return z.each((*ZooKeeperNode).backup) }

// Restore kills the ensemble, replaces its data by the last backup, and starts it again.
func (z *ZooKeeper) Restore(ctx context.Context) error {
	if err := errors.Join(z.Kill(), z.each((*ZooKeeperNode).restore)); err != nil {
		return err
	}
	return z.Start(ctx)
}

// Kill kills every node and waits; see [Process.Kill].
func (z *ZooKeeper) Kill() error { return z.each((*ZooKeeperNode).Kill) }

// Stop stops every node and waits; see [Process.Stop].
func (z *ZooKeeper) Stop() error { return z.each((*ZooKeeperNode).Stop) }

// Pause stops the processes of every node; see [Process.Pause].
func (z *ZooKeeper) Pause() error { return z.each((*ZooKeeperNode).Pause) }

// Resume lets every node continue; see [Process.Resume].
func (z *ZooKeeper) Resume() error { return z.each((*ZooKeeperNode).Resume) }

// Close ends every node and removes the directory. It may be called twice.
func (z *ZooKeeper) Close() error {
	return errors.Join(z.each((*ZooKeeperNode).Close), os.RemoveAll(z.dir))
}

// each calls do for all nodes concurrently and returns all errors.
func (z *ZooKeeper) each(do func(*ZooKeeperNode) error) error {
	errs := make([]error, len(z.Nodes))
	var g errgroup.Group
	for i, n := range z.Nodes {
		g.Go(func() error { errs[i] = do(n); return nil })
	}
	return errors.Join(append(errs, g.Wait())...)
}

// LogTail returns the last n lines of each node's log.
func (z *ZooKeeper) LogTail(n int) string {
	var b strings.Builder
	for _, node := range z.Nodes {
		fmt.Fprintf(&b, "%s:\n%s\n", filepath.Base(node.spec.dir), node.LogTail(n))
	}
	return b.String()
}

// javaProgram prefers JAVA_HOME and Homebrew's to the path, because /usr/bin/java of macOS only
// prints that there is no Java.
func (p places) javaProgram() (string, error) {
	var dirs []string
	if p.java != "" {
		dirs = append(dirs, filepath.Join(p.java, "bin"))
	}
	for _, b := range brewed {
		dirs = append(dirs, p.root+b+"/openjdk/bin")
	}
	if file := first(append(dirs, p.path...), "java"); file != "" {
		return file, nil
	}
	return "", missing("java (for ZooKeeper)", "default-jre-headless", "openjdk")
}

// zookeeper returns the class path of ZooKeeper and of a logger that writes to standard error.
func (p places) zookeeper() (string, error) {
	if cp := debianClassPath(p.root + "/usr/share/java"); cp != "" && p.zoo == "" {
		return cp, nil
	}
	libs := []string{p.root + "/opt/zookeeper/lib", p.root + "/usr/local/zookeeper/lib"}
	for _, b := range brewed {
		libs = append(libs, p.root+b+"/zookeeper/libexec/lib")
	}
	if p.zoo != "" {
		libs = slices.Insert(libs, 0, filepath.Join(p.zoo, "lib"))
	}
	for _, lib := range libs {
		if jars, _ := filepath.Glob(lib + "/zookeeper-[0-9]*.jar"); len(jars) > 0 {
			return lib + "/*", nil
		}
	}
	return "", missing("ZooKeeper", "zookeeper default-jre-headless", "zookeeper")
}

// debianClassPath lists the jars of Debian's packages. The manifest of zookeeper.jar names its
// dependencies, but no logger; version 3.4 of older releases needs log4j-1.2 and netty. TLS needs
// those of netty 4.
func debianClassPath(dir string) string {
	if _, err := os.Stat(dir + "/zookeeper.jar"); err != nil {
		return ""
	}
	var jars []string
	for _, name := range []string{
		"zookeeper", "zookeeper-jute", "slf4j-api", "slf4j-simple", "log4j-1.2", "netty",
		"netty-buffer", "netty-codec", "netty-common", "netty-handler", "netty-resolver",
		"netty-transport",
		"netty-transport-native-unix-common", "netty-transport-native-epoll",
	} {
		if jar := filepath.Join(dir, name+".jar"); fileExists(jar) {
			jars = append(jars, jar)
		}
	}
	return strings.Join(jars, ":")
}
