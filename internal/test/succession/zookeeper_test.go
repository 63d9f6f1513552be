package succession

import (
	"bufio"
	"context"
	crand "crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/coordinator"
	"github.com/ringfence/ringfence/fence/zookeeper"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// longSession is at most the longest session that the ensemble grants.
const longSession = time.Minute

// openZooKeeper opens a journal with asynchronous steps, under a term that it wins. The steps write
// to the file that Raise names.
func openZooKeeper(ctx context.Context, e job) (*opened, error) {
	co, err := zookeeper.Open(ctx, e.URL, zookeeper.Options{SessionTimeout: longSession})
	if err != nil {
		return nil, err
	}
	host, root, _ := strings.Cut(strings.TrimPrefix(e.URL, "zk://"), "/")
	relay, err := e.Ending.relay(host)
	if err != nil {
		return nil, err
	}
	behind, err := zookeeper.Open(ctx, "zk://"+relay.Addr()+"/"+root, zookeeper.Options{})
	if err != nil {
		return nil, err
	}
	j := coordinator.New(behind.Documents())
	term, err := co.Campaign(ctx, resource, holder(os.Getpid()))
	if err != nil {
		return nil, err
	}
	world, err := os.OpenFile(e.Raise, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	o := &opened{journal: watched{j, e.Ending}, term: term, close: func() {
		ended, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = term.Resign(ended)
		_ = behind.Close()
		_ = co.Close()
		_ = world.Close()
		_ = relay.Close()
	}}
	for _, name := range []string{"fetch", "mail"} {
		o.steps = append(o.steps, asynchronous(name, e.Ending, func(
			_ context.Context, key checkpoint.Key,
		) error {
			_, err := fmt.Fprintln(world, key)
			return err
		}))
	}
	return o, nil
}

func zookeeperWorld(t *testing.T) *world {
	zk := serverstest.SharedZooKeeper(t)
	u := fmt.Sprintf("zk://%s/%s", zk.Addr(), strings.ToLower(crand.Text()))
	co, err := zookeeper.Open(t.Context(), u, zookeeper.Options{})
	must.Succeed(t, err)
	t.Cleanup(func() { _ = co.Close() })
	j := coordinator.New(co.Documents())
	file := filepath.Join(t.TempDir(), "world")
	return &world{t: t, kind: "zookeeper", url: u, raise: file, journal: j, depose: deposer(t, u),
		outside: func() (lines []string) {
			f, err := os.Open(file)
			must.Succeed(t, err)
			defer f.Close()
			for in := bufio.NewScanner(f); in.Scan(); {
				lines = append(lines, in.Text())
			}
			return lines
		}}
}

// deposer returns a function that ends the candidacy of a process, if it has one.
func deposer(t *testing.T, url string) func(pid int) error {
	co, err := zookeeper.Open(t.Context(), url, zookeeper.Options{SessionTimeout: longSession})
	must.Succeed(t, err)
	t.Cleanup(func() { _ = co.Close() })
	return func(pid int) error {
		queue, err := co.Candidates(t.Context(), resource)
		for _, c := range queue {
			if c.Holder == holder(pid) {
				_, err = co.Depose(t.Context(), resource, c.Token)
			}
		}
		return err
	}
}
