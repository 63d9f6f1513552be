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

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
)

// It uses one system, which has everything that a topology can add.
func TestEveryFaultOfStoresInContainers(t *testing.T) {
	events := newRecorded()
	s := build(t, system.Build{
		Topology: scenario.Topology{
			CoordinatorServers: 1, Guards: 2, Workers: 2, Session: time.Second,
			StoreLinks: true, Replica: true, Copy: true, Neighbour: true,
			GuardSettings: []string{"GUARD_MAX_LOGINS=7"},
		},
		Workload: scenario.Workload{Pause: 20 * time.Millisecond}, Events: events.add,
	})
	for _, w := range s.build.Topology.WorkerNames() {
		must.Succeed(t, s.Start(t.Context(), w))
	}
	events.leader(t)

	for _, act := range []struct {
		name string
		do   func(*testing.T, *System, *recorded)
	}{
		{"the lab reaches what clients reach", reached},
		{"a guard's link is held", storeHeld},
		{"a guard's link is turned", turned},
		{"Redis is switched over", switchedOver},
		{"Postgres is set back", setBack},
	} {
		if !t.Run(act.name, func(t *testing.T) { act.do(t, s, events) }) {
			return
		}
	}
	must.Succeed(t, s.Close())
	nothingLeft(t, s.settings.project)
}

func reached(t *testing.T, s *System, _ *recorded) {
	at := s.Addresses()
	if user := pgtest.Value[string](t, at.App, "select current_user"); user != "app" {
		t.Errorf("App logs in as %s", user)
	}
	for _, name := range []string{"guard-1", "guard-2", scenario.Neighbour} {
		if err := probePostgres(t.Context(), at.Guards[name].Postgres); !refused(err) {
			t.Errorf("%s answers a client without a token with %v", name, err)
		}
		must.Succeed(t, probeRedis(t.Context(), at.Guards[name].Redis))
		log, err := s.logs(t.Context(), s.id(name))
		must.Succeed(t, err)
		if !strings.Contains(log, `"GUARD_MAX_LOGINS":"7"`) {
			t.Errorf("%s does not have the setting GUARD_MAX_LOGINS:\n%s", name, log)
		}
	}
	first := s.settings.postgresURL("postgres", "postgres")
	copied := s.settings.postgresURL("postgres", scenario.Postgres2)
	for _, sql := range []string{
		"select system_identifier::text from pg_control_system()",
		"select row_to_json(i)::text from ringfence_private.installation i",
	} {
		if a, b := pgtest.Value[string](t, first, sql), pgtest.Value[string](t, copied, sql); a != b {
			t.Errorf("%s: %s, and %s in the copy", sql, a, b)
		}
	}
}

func refused(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && strings.HasPrefix(pg.Code, "RF")
}

// query reads one value from a Postgres.
// overRedisLink runs a script in the network of guard-1. It has two functions: `dial N` connects a
// descriptor over the guard's link, and `role N` asks Redis for its role over a descriptor.
func (s *System) overRedisLink(ctx context.Context, script string) error {
	l, _ := s.settings.storeLink(s.build.Topology, "guard-1", "redis")
	out, err := s.netfault(ctx, "guard-1", fmt.Sprintf(`exec bash -c '
dial() { eval "exec $1<>/dev/tcp/%s/%s"; }
role() { printf "INFO replication\r\n" >&$1; while read -r -t ${2:-20} -u $1 line; do
  case $line in role:*) role=${line#role:}; role=${role%%?}; return;; esac; done; echo no answer; exit 1; }
%s'`, l.address, l.ports[0], script))
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func storeHeld(t *testing.T, s *System, rec *recorded) {
	ctx := t.Context()
	must.Succeed(t, s.overRedisLink(ctx, "dial 3; role 3"))
	must.Succeed(t, s.Shape(ctx, "guard-1", "redis", system.Shape{HoldUp: true}))
	if err := s.overRedisLink(ctx, "dial 3; role 3 2"); err == nil ||
		!strings.Contains(err.Error(), "no answer") {
		t.Errorf("over a held link: %v", err)
	}
	must.Succeed(t, s.Shape(ctx, "guard-1", "redis", system.Shape{}))
	must.Succeed(t, s.overRedisLink(ctx, "dial 3; role 3"))
	rec.leader(t)
	if err := s.Shape(ctx, scenario.Neighbour, "redis", system.Shape{HoldUp: true}); err == nil {
		t.Error("the neighbour has a link that can be held")
	}
}

// guardsAt returns how many connections guards have to a Postgres.
func (s *System) guardsAt(t *testing.T, server string) int {
	t.Helper()
	return pgtest.Value[int](t, s.settings.postgresURL("postgres", server),
		"select count(*)::int from pg_stat_activity where usename = 'guard'")
}

// turned restarts guards, because only new connections follow a turn.
func turned(t *testing.T, s *System, rec *recorded) {
	ctx := t.Context()
	if n := s.guardsAt(t, scenario.Postgres2); n > 0 {
		t.Errorf("guards have %d connections to the copy at the beginning", n)
	}
	must.Succeed(t, s.Turn(ctx, "guard-1", scenario.Postgres2))
	must.Succeed(t, s.Kill(ctx, "guard-1"))
	must.Succeed(t, s.Start(ctx, "guard-1"))
	if s.guardsAt(t, scenario.Postgres2) == 0 {
		t.Error("a guard that was started after the turn does not reach the copy")
	}
	must.Succeed(t, s.Turn(ctx, "guard-1", "postgres"))
	if s.guardsAt(t, scenario.Postgres2) == 0 {
		t.Error("open connections have followed the turn back")
	}
	must.Succeed(t, s.Kill(ctx, "guard-1"))
	must.Succeed(t, s.Start(ctx, "guard-1"))
	rec.leader(t)
	for _, wrong := range []string{"postgres-3", scenario.Neighbour} {
		if err := s.Turn(ctx, "guard-1", wrong); err == nil {
			t.Errorf("a link was turned to %s", wrong)
		}
	}
}

// switchedOver keeps one connection open, which must stay at the first server.
func switchedOver(t *testing.T, s *System, rec *recorded) {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	watched := make(chan error, 1)
	go func() {
		watched <- s.overRedisLink(ctx, `
dial 3; printf "CLIENT SETNAME watcher\r\n" >&3
until role 3; [ $role = slave ]; do sleep 0.05; done
until dial 4; role 4; [ $role = master ]; do exec 4>&-; sleep 0.05; done`)
	}()
	before := s.Addresses().Redis
	waitForClient(t, ctx, before, "name=watcher")
	must.Succeed(t, s.SwitchOver(ctx))
	if err := <-watched; err != nil {
		t.Errorf("one connection that stays, and a new one that does not: %v", err)
	}
	if s.Addresses().Redis == before {
		t.Error("Addresses names the new replica")
	}
	rec.leader(t)
	if _, err := s.Operator(ctx, "status"); err != nil {
		t.Error(err)
	}
	must.Succeed(t, s.SwitchOver(ctx))
	if s.Addresses().Redis != before {
		t.Error("Addresses does not name the first primary again")
	}
	rec.leader(t)
}

// waitForClient waits until Redis lists a client.
func waitForClient(t *testing.T, ctx context.Context, url, what string) {
	t.Helper()
	o, err := driver.ParseURL(url)
	must.Succeed(t, err)
	c := driver.NewClient(o)
	defer c.Close()
	again := time.NewTicker(probeInterval)
	defer again.Stop()
	for {
		list, err := c.ClientList(ctx).Result()
		must.Succeed(t, err)
		if strings.Contains(list, what) {
			return
		}
		<-again.C
	}
}

// setBack also looks for the file of a table: it would still be there if the copy had only been put
// over the data.
func setBack(t *testing.T, s *System, rec *recorded) {
	ctx := t.Context()
	must.Succeed(t, s.Backup(ctx, "postgres"))
	at := s.Addresses().Postgres
	c, err := pgx.Connect(ctx, at)
	must.Succeed(t, err)
	_, err = c.Exec(ctx, "create table later ()")
	must.Succeed(t, errors.Join(err, c.Close(ctx)))
	file := pgtest.Value[string](t, at, "select pg_relation_filepath('later')")
	must.Succeed(t, s.Restore(ctx, "postgres"))
	sql := "select to_regclass('later') is null and pg_stat_file('%s', true) is null"
	if !pgtest.Value[bool](t, at, fmt.Sprintf(sql, file)) {
		t.Error("a table that was created after the backup is there")
	}
	if pgtest.Value[int](t, at, "select count(*)::int from ledger") == 0 {
		t.Error("rows that were written before the backup are not there")
	}
	rec.leader(t)
}

func TestOneFileIsLeftOutOfAnArchive(t *testing.T) {
	var all bytes.Buffer
	w := tar.NewWriter(&all)
	for _, name := range []string{"data/PG_VERSION", "data/postmaster.pid", "data/base/1"} {
		must.Succeed(t, w.WriteHeader(&tar.Header{Name: name, Size: 2, Mode: 0o600, Uid: 105}))
		_, err := io.WriteString(w, "15")
		must.Succeed(t, err)
	}
	must.Succeed(t, w.Close())
	rest, err := withoutFile(postmasterFile, &all)
	must.Succeed(t, err)
	var got []string
	for r := tar.NewReader(bytes.NewReader(rest)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must.Succeed(t, err)
		text, err := io.ReadAll(r)
		must.Succeed(t, err)
		got = append(got, fmt.Sprintf("%s %d %s", h.Name, h.Uid, text))
	}
	if want := "[data/PG_VERSION 105 15 data/base/1 105 15]"; fmt.Sprint(got) != want {
		t.Errorf("%v", got)
	}
}

func TestAReplicaNeedsLinks(t *testing.T) {
	for _, wrong := range []scenario.Topology{{Replica: true}, {Copy: true}} {
		if checkTopology(wrong) == nil {
			t.Errorf("%+v was accepted", wrong)
		}
	}
	must.Report(t, checkTopology(scenario.Topology{
		StoreLinks: true, Replica: true, Copy: true,
	}))
}
