package containers

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/coordinators"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
)

// win wins a term of another election and gives it up.
func win(t *testing.T, s *System) fence.Token {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	co, err := system.OpenCoordinator(ctx, s.Addresses().Coordinator, coordinators.Options{})
	must.Succeed(t, err)
	defer co.Close()
	term, err := co.Campaign(ctx, "another", "test")
	must.Succeed(t, err)
	must.Succeed(t, term.Resign(ctx))
	return term.Token()
}

// serversRebuilt replaces a majority of the servers, one after the other, and then does without the
// last, so that the new ones must know everything.
func serversRebuilt(t *testing.T, s *System, rec *recorded) {
	ctx := t.Context()
	names := s.build.Topology.CoordinatorNames()
	last := len(names) - 1
	before := win(t, s)
	for _, server := range names[:last] {
		must.Succeed(t, s.Lose(ctx, server))
		after := win(t, s) // two of three serve
		must.Succeed(t, s.Rebuild(ctx, server))
		if after <= before {
			t.Errorf("%s was lost, and %s follows %s", server, after, before)
		}
		before = after
	}
	must.Succeed(t, s.Kill(ctx, names[last]))
	if after := win(t, s); after <= before {
		t.Errorf("with replaced servers, %s follows %s", after, before)
	}
	must.Succeed(t, s.Start(ctx, names[last]))
	rec.leader(t)
}

// failedOver loses the primary with what it has committed since the stream ended.
func failedOver(t *testing.T, s *System, rec *recorded) {
	ctx := t.Context()
	win(t, s)
	must.Succeed(t, s.Lag(ctx))
	lost := win(t, s)
	at := s.settings.postgresURL("postgres", standby)
	if pgtest.Value[int](t, at, "select count(*)::int from pg_stat_wal_receiver") > 0 {
		t.Error("the standby still streams")
	}
	must.Succeed(t, s.Kill(ctx, "elections"))
	must.Succeed(t, s.Promote(ctx))
	if token := win(t, s); token <= lost {
		t.Errorf("after the failover %s follows %s", token, lost)
	}
	rec.leader(t)
}

// linksBreak breaks the links of a worker and of a guard. Open connections end, and others are
// refused until the link is healed.
func linksBreak(t *testing.T, s *System, rec *recorded) {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	for _, process := range []string{rec.leader(t), "guard-1"} {
		l, err := s.settings.link(s.build.Topology, process, "coordinator")
		must.Succeed(t, err)
		run := func(script string) (string, error) { return s.netfault(ctx, process, script) }
		dial := func(port string) string { return "exec 3<>/dev/tcp/" + l.address + "/" + port }
		open := fmt.Sprintf("ss -Htn state established 'dst %s and ( dport = :%s )' | grep .",
			l.address, strings.Join(l.ports, " or dport = :"))

		ended := make(chan error, 1)
		go func() {
			// 124: after the time-out. It may also be refused: the process may have another one open.
			_, err := run("exec bash -c '(" + dial(l.ports[0]) +
				"; timeout 40 cat <&3 >/dev/null); [ $? != 124 ]'")
			ended <- err
		}()
		_, err = run("until " + open + "; do sleep 0.05; done")
		must.Succeed(t, err)
		must.Succeed(t, s.Shape(ctx, process, "coordinator", system.Shape{Break: true}))
		if out, _ := run(open); out != "" {
			t.Errorf("over broken links %s has the connections\n%s", process, out)
		}
		if err := <-ended; err != nil {
			t.Errorf("the connection of %s was not ended: %v", process, err)
		}
		for _, port := range l.ports {
			out, err := run("exec bash -c '" + dial(port) + "'")
			if err == nil || !strings.Contains(out, "refused") {
				t.Errorf("a connection of %s over a broken link: %v %s", process, err, out)
			}
		}
		must.Succeed(t, s.Shape(ctx, process, "coordinator", system.Shape{}))
		if out, err := run("exec bash -c '" + dial(l.ports[0]) + "'"); err != nil {
			t.Errorf("a connection of %s over a healed link: %v %s", process, err, out)
		}
		rec.leader(t)
	}
}

func TestOnlyServersOfAnEnsembleCanBeReplaced(t *testing.T) {
	for _, c := range []struct {
		in      scenario.Elections
		servers int
		server  string
	}{
		{scenario.InZooKeeper, 3, "postgres"},
		{scenario.InEtcd, 3, "etcd-4"},
		{scenario.InEtcd, 1, "etcd-1"},
		{scenario.InPostgres, 1, "elections"},
	} {
		topology := scenario.Topology{Elections: c.in, CoordinatorServers: c.servers}
		s := &System{build: system.Build{Topology: topology}}
		if s.Lose(t.Context(), c.server) == nil || s.Rebuild(t.Context(), c.server) == nil {
			t.Errorf("%s, one of %d servers, was lost or rebuilt", c.server, c.servers)
		}
		if s.Lag(t.Context()) == nil || s.Promote(t.Context()) == nil {
			t.Errorf("%s without a standby has promoted one", c.in)
		}
	}
}

func TestTheStandbyIsNotStartedFromAnEmptyDisk(t *testing.T) {
	topology := scenario.Topology{Elections: scenario.InPostgres, Standby: true}
	if got := fmt.Sprint(primaries(topology)); got != "[elections]" {
		t.Errorf("%s start with empty disks", got)
	}
}

func TestACopyBecomesAStandby(t *testing.T) {
	var disk bytes.Buffer
	w := tar.NewWriter(&disk)
	must.Succeed(t, w.WriteHeader(&tar.Header{
		Typeflag: tar.TypeDir, Name: "data/", Mode: 0o700, Uid: 105, Gid: 106,
	}))
	must.Succeed(t, w.WriteHeader(&tar.Header{
		Name: "data/PG_VERSION", Size: 2, Mode: 0o600, Uid: 105,
	}))
	_, err := io.WriteString(w, "17")
	must.Succeed(t, errors.Join(err, w.Close()))
	all, err := asStandby(disk.Bytes())
	must.Succeed(t, err)
	var got []string
	for r := tar.NewReader(bytes.NewReader(all)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must.Succeed(t, err)
		text, err := io.ReadAll(r)
		must.Succeed(t, err)
		got = append(got, fmt.Sprintf("%s %d %o %s", h.Name, h.Uid, h.Mode, text))
	}
	want := "[data/standby.signal 105 600  data/ 105 700  data/PG_VERSION 105 600 17]"
	if fmt.Sprint(got) != want {
		t.Errorf("%v", got)
	}
	if _, err := asStandby(nil); err == nil {
		t.Error("nothing became the disk of a standby")
	}
}
