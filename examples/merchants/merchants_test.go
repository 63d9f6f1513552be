package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/test/leadertest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// asProgram makes the test's program be the example's.
const asProgram = "MERCHANTS_EXAMPLE"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(serverstest.RunMain(m))
}

const merchants = 200

// Two workers are killed when they have booked and not yet recorded that, and a third one among the
// payments. Every merchant is settled once.
func TestEveryMerchantIsSettledOnceAlthoughWorkersAreKilled(t *testing.T) {
	s := newSite(t)
	release := s.holdCheckpoints()
	first, second := s.start("work"), s.start("work")
	submitted := s.start("submit", "2026-11-23")
	var booked string
	leadertest.Eventually(t, "both workers have booked", func() bool {
		booked = s.waiting()
		return strings.Count(booked, ",") == 7 // the capacity of both is 8
	})
	first.kill()
	second.kill()
	// as guards do
	s.SQL("select pg_terminate_backend(pid) from pg_stat_activity where pid in (" + booked + ")")
	third := s.start("work")
	leadertest.Eventually(t, "their sessions have ended", func() bool {
		return s.Query("select count(*)::text from pg_stat_activity where pid in ("+booked+")") == "0"
	})
	release()
	leadertest.Eventually(t, "a third of the merchants is paid", func() bool {
		return s.count("payments") > merchants/3
	})
	last := s.start("work")
	third.kill()
	submitted.succeeds()

	again := s.start("submit", "2026-11-23") // there is nothing to do
	again.succeeds()
	last.kill()

	for table, want := range map[string]string{
		"ledger": "200 200 60900.00", "payments": "200 200 60900.00",
	} {
		got := s.Query(`select count(*) || ' ' || count(distinct merchant) || ' ' || sum(amount) from ` +
			table)
		if got != want {
			t.Errorf("%s: rows, merchants and sum are %s, want %s", table, got, want)
		}
	}
	if left := s.Query("select count(*)::text from orders where settlement is null"); left != "0" {
		t.Errorf("%s orders are open", left)
	}
}

// A job that is submitted again finds its task done.
func TestASettlementIsNotMadeAgain(t *testing.T) {
	s := newSite(t)
	worker := s.start("work")
	for range 2 {
		s.start("submit", "2026-11-23").succeeds()
		s.SQL("update orders set settlement = null where merchant = 'm7'") // as if nobody had settled it
	}
	worker.kill()
	if n := s.count("ledger"); n != merchants {
		t.Errorf("%d bookings", n)
	}
}

// site is a database behind a guard, and a coordinator.
type site struct {
	leadertest.Database
	t   *testing.T
	env []string
}

func newSite(t *testing.T) *site {
	t.Helper()
	etcd := serverstest.Etcd(t, servers.EtcdOptions{})
	s := &site{t: t, Database: leadertest.NewDatabase(t)}
	schema, err := os.ReadFile("schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	s.SQL(string(schema))
	s.SQL(fmt.Sprintf(`insert into orders (merchant, amount, day)
		select 'm' || m, m + n, '2026-11-20'::date + n from generate_series(1, %d) m, generate_series(0, 2) n`, merchants))
	s.Grant()
	coordinator := "etcd://" + etcd.Addr() + "/merchants"
	s.env = append(os.Environ(), asProgram+"=1", "COORDINATOR="+coordinator,
		"ORDERS="+s.URL("keeper"), "DATABASE="+s.guard(coordinator))
	return s
}

// guard starts a guard, and returns the URL of the database through it.
func (s *site) guard(coordinator string) string {
	s.t.Helper()
	program := filepath.Join(s.t.TempDir(), "guard")
	if out, err := exec.Command("go", "build", "-o", program,
		"../../cmd/guard").CombinedOutput(); err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
	at := serverstest.FreeAddresses(s.t, 1)[0]
	g := s.command(program, "serve")
	g.cmd.Env = []string{
		"GUARD_POSTGRES_LISTEN=" + at, "GUARD_POSTGRES_UPSTREAM=" + s.URL("warden"),
		"GUARD_COORDINATOR=" + coordinator,
	}
	g.begin()
	leadertest.Eventually(s.t, "the guard listens", func() bool {
		conn, err := net.Dial("tcp", at)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return fmt.Sprintf("postgres://keeper@%s/%s?sslmode=disable", at, s.Conn.Config().Database)
}

func (s *site) count(table string) int {
	s.t.Helper()
	n, err := strconv.Atoi(s.Query("select count(*)::text from " + table))
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// holdCheckpoints keeps the checkpoints after the bookings from being written, until release is
// called.
func (s *site) holdCheckpoints() (release func()) {
	s.t.Helper()
	s.SQL(`create function hold() returns trigger language plpgsql as
			$$ begin perform pg_advisory_xact_lock_shared(1); return new; end $$;
		create trigger hold before insert or update on ringfence_private.checkpoint for each row
			when (new.checkpoint->>'step' = '2') execute function hold();
		select pg_advisory_lock(1)`)
	return func() { s.SQL("select pg_advisory_unlock(1)") }
}

// waiting returns the backends whose checkpoints are held.
func (s *site) waiting() (pids string) {
	s.t.Helper()
	return s.Query(`select coalesce(string_agg(pid::text, ','), '') from pg_stat_activity
		where datname = current_database() and wait_event = 'advisory'`)
}

// process is the example, or a guard.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	log   *leadertest.Screen
	ended chan struct{}
}

// start starts the example.
func (s *site) start(args ...string) *process {
	s.t.Helper()
	p := s.command(os.Args[0], args...)
	p.cmd.Env = s.env
	p.begin()
	return p
}

func (s *site) command(program string, args ...string) *process {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), 5*time.Minute)
	s.t.Cleanup(cancel)
	p := &process{
		t: s.t, cmd: exec.CommandContext(ctx, program, args...), log: leadertest.NewScreen(),
		ended: make(chan struct{}),
	}
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	return p
}

func (p *process) begin() {
	p.t.Helper()
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	go func() { defer close(p.ended); _ = p.cmd.Wait() }()
	p.t.Cleanup(func() {
		p.kill()
		if p.t.Failed() {
			p.t.Logf("%v:\n%s", p.cmd.Args, p.log)
		}
	})
}

// kill ends the process as a power failure does.
func (p *process) kill() { _ = p.cmd.Process.Kill(); <-p.ended }

func (p *process) succeeds() {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(4 * time.Minute):
		p.t.Fatalf("%v does not end", p.cmd.Args)
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		p.t.Errorf("%v: exit code %d:\n%s", p.cmd.Args, code, p.log)
	}
}
