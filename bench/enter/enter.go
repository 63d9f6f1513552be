// Package enter measures what ringfence.enter adds to a transaction: pgbench -N with it, in one
// message with BEGIN, beside the same with a lock of a lease row that an application might write by
// hand (FOR SHARE), and with a statement that does nothing.
package enter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/bench/internal/program"
	"github.com/ringfence/ringfence/bench/internal/report"
	"github.com/ringfence/ringfence/bench/internal/rounds"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/test/servers"
)

// settings are the flags.
type settings struct{ report.Options }

// New returns the benchmark.
func New() program.Benchmark {
	return &settings{report.Options{Rounds: 7, Seconds: 5, Limit: 20 * time.Minute}}
}

const (
	without = "without"
	peer    = "for share"
	with    = "enter"

	scale   = 10
	control = "guard" // the role that raises
	app     = "app"
)

var claim = fence.Claim{
	Resource: "orders", Token: 5, Issuer: "bench:a", Holder: "bench", Candidate: "a",
}

var ways = []string{without, peer, with}

// first is the statement at the beginning of each transaction.
var first = map[string]string{
	without: "select 1",
	peer: fmt.Sprintf("select 1 from lease where name = '%s' and epoch = %d for share",
		claim.Resource, claim.Token),
}

// script is pgbench -N with a statement at the beginning.
const script = `\set aid random(1, 100000 * :scale)
\set bid random(1, :scale)
\set tid random(1, 10 * :scale)
\set delta random(-5000, 5000)
BEGIN\; %s;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);
END;
`

// Measure implements program.Benchmark.
func (s *settings) Measure(ctx context.Context, progress io.Writer) (_ report.Result, err error) {
	pg, err := servers.StartPostgres(ctx, servers.PostgresOptions{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, pg.Close()) }()
	dir, err := os.MkdirTemp("", "bench-enter")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	b := &bench{pg: pg, dir: dir, seconds: s.Seconds}
	if err := b.prepare(ctx); err != nil {
		return nil, err
	}
	r := report.New("enter", s.Options)
	if err := measureAdded(ctx, r, s.Options, progress, "CPU of the backend", b.cpu); err != nil {
		return nil, err
	}
	for _, clients := range []int{1, 8} {
		to := fmt.Sprintf("pgbench -N, %d clients", clients)
		latencies := func(ctx context.Context) (map[string]float64, error) {
			return b.latencies(ctx, clients)
		}
		if err := measureAdded(ctx, r, s.Options, progress, to, latencies); err != nil {
			return nil, err
		}
	}
	for _, commit := range []string{"on", "off"} {
		for _, clients := range []int{1, 8} {
			if err := b.measureTPS(ctx, r, s.Options, progress, commit, clients); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

// most is how many times as much as the peer enter may add.
const most = 1.5

// measureAdded measures how much more a transaction takes than without, by a measure of all ways
// in microseconds.
func measureAdded(
	ctx context.Context, r *report.Report, o report.Options, progress io.Writer,
	to string, measure func(context.Context) (map[string]float64, error),
) error {
	row := r.Row(report.Row{
		Name: "added to a transaction, " + to, Unit: "µs", Lower: true,
		Bar: &report.Bar{Way: with, Against: peer, Limit: 1 / most},
	})
	if !o.Wants(row.Name) {
		return nil
	}
	fmt.Fprintln(progress, row.Name)
	for range o.Rounds {
		took, err := measure(ctx)
		if err != nil {
			return err
		}
		for _, way := range []string{peer, with} {
			row.Add(way, took[way]-took[without])
		}
	}
	return nil
}

// measureTPS measures transactions per second.
func (b *bench) measureTPS(
	ctx context.Context, r *report.Report, o report.Options, progress io.Writer, commit string,
	clients int,
) error {
	name := fmt.Sprintf("pgbench -N, synchronous_commit %s, %d clients", commit, clients)
	if !o.Wants(name) {
		return nil
	}
	fmt.Fprintln(progress, name)
	row := r.Row(report.Row{Name: name, Unit: "tps",
		Bar: &report.Bar{
			Way: with, Against: without, Limit: map[string]float64{"on": 0.95, "off": 0.85}[commit],
		}})
	for round := range o.Rounds {
		for _, way := range rounds.Turn(ways, round) {
			tps, err := b.rate(ctx, way, commit, clients)
			if err != nil {
				return err
			}
			row.Add(way, tps)
		}
	}
	return nil
}

// bench is a server with pgbench's tables, and a mark.
type bench struct {
	pg      *servers.Postgres
	dir     string
	seconds float64
}

func (b *bench) prepare(ctx context.Context) error {
	admin, err := pgmarks.Connect(ctx, b.pg.URL("postgres", "postgres"))
	if err != nil {
		return err
	}
	defer admin.Close(context.WithoutCancel(ctx))
	for _, sql := range []string{
		"create role " + control + " login", "create role " + app + " login", "grant create on schema " +
			"public to " + app,
		"create table lease (name text primary key, epoch bigint)", fmt.Sprintf("insert into lease "+
			"values ('%s', %d)", claim.Resource, claim.Token),
		"grant select, update on lease to " + app,
	} {
		if _, err := admin.Exec(ctx, sql); err != nil {
			return err
		}
	}
	if err := pgmarks.Install(ctx, b.pg.URL("postgres", "postgres"), control); err != nil {
		return err
	}
	if err := pgmarks.NewRaiser(b.pg.URL(control, "postgres")).Raise(ctx, claim); err != nil {
		return err
	}
	var pass string
	if err := admin.QueryRow(ctx, "select pass from ringfence_private.gate").Scan(&pass); err != nil {
		return err
	}
	first[with] = fmt.Sprintf("select ringfence.enter('%s')", pass)
	for _, way := range ways {
		if err := os.WriteFile(b.script(way), fmt.Appendf(nil, script, first[way]), 0o644); err != nil {
			return err
		}
	}
	_, err = b.pgbench(ctx, "-i", "-q", "-s", strconv.Itoa(scale))
	return err
}

// cpu returns the CPU time of a backend for each transaction, in microseconds. One backend does all
// three in short turns.
func (b *bench) cpu(ctx context.Context) (map[string]float64, error) {
	const turns, transactions = 21, 300
	conn, err := pgmarks.Connect(ctx, b.pg.URL(app, "postgres"))
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "set synchronous_commit = off"); err != nil {
		return nil, err
	}
	took := map[string]float64{}
	for turn := range turns {
		for _, way := range rounds.Turn(ways, turn) {
			start, err := cpuOf(conn.PgConn().PID())
			if err != nil {
				return nil, err
			}
			for n := range transactions {
				if err := transaction(ctx, conn.PgConn(), way, 1+
					(turn*transactions+n)*7919%(100000*scale)); err != nil {
					return nil, err
				}
			}
			end, err := cpuOf(conn.PgConn().PID())
			if err != nil {
				return nil, err
			}
			if turn > 0 { // the first one warms the backend up
				took[way] += float64((end - start).Nanoseconds()) / 1e3 / transactions / (turns - 1)
			}
		}
	}
	return took, nil
}

// transaction does what the script does.
func transaction(ctx context.Context, conn *pgconn.PgConn, way string, account int) error {
	for _, sql := range []string{
		"BEGIN; " + first[way],
		fmt.Sprintf("UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = %d", account),
		fmt.Sprintf("SELECT abalance FROM pgbench_accounts WHERE aid = %d", account),
		fmt.Sprintf("INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (1, 1, %d, 1, "+
			"CURRENT_TIMESTAMP)", account),
		"END",
	} {
		if _, err := conn.Exec(ctx, sql).ReadAll(); err != nil {
			return err
		}
	}
	return nil
}

// cpuOf returns the CPU time that a process has had (proc(5), schedstat).
func cpuOf(pid uint32) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
	if err != nil {
		return 0, err
	}
	var took int64
	_, err = fmt.Sscan(string(text), &took)
	return time.Duration(took), err
}

func (b *bench) script(way string) string { return filepath.Join(b.dir, way+".sql") }

// rate returns the transactions per second of one way.
func (b *bench) rate(ctx context.Context, way, commit string, clients int) (float64, error) {
	out, err := b.run(ctx, clients, b.seconds, commit, way)
	if err != nil {
		return 0, err
	}
	found := perSecond.FindStringSubmatch(out)
	if found == nil {
		return 0, fmt.Errorf("pgbench printed no tps: %s", out)
	}
	return strconv.ParseFloat(found[1], 64)
}

// latencies returns the average time that a transaction of each way takes, in microseconds. The
// same clients run all scripts in random order, so all have the same server, and nothing waits for
// a disk.
func (b *bench) latencies(ctx context.Context, clients int) (map[string]float64, error) {
	out, err := b.run(ctx, clients, b.seconds*float64(len(ways)), "off", ways...)
	if err != nil {
		return nil, err
	}
	found := latency.FindAllStringSubmatch(out, -1)
	if len(found) != len(ways) {
		return nil, fmt.Errorf("pgbench printed no latency of each script: %s", out)
	}
	took := map[string]float64{}
	for i, way := range ways {
		ms, err := strconv.ParseFloat(found[i][1], 64)
		if err != nil {
			return nil, err
		}
		took[way] = 1e3 * ms
	}
	return took, nil
}

var (
	perSecond = regexp.MustCompile(`(?m)^tps = ([\d.]+) `)
	latency   = regexp.MustCompile(`(?m)^ - latency average = ([\d.]+) ms`)
)

// run runs pgbench, and returns what it prints.
func (b *bench) run(
	ctx context.Context, clients int, seconds float64, commit string, ways ...string,
) (string, error) {
	admin, err := pgmarks.Connect(ctx, b.pg.URL(app, "postgres"))
	if err != nil {
		return "", err
	}
	defer admin.Close(context.WithoutCancel(ctx))
	// The updates of earlier measurements would slow down the later ones.
	for _, sql := range []string{"truncate pgbench_history", "vacuum pgbench_accounts"} {
		if _, err := admin.Exec(ctx, sql); err != nil {
			return "", err
		}
	}
	args := []string{"-n", "-D", fmt.Sprintf("scale=%d", scale), "-c", strconv.Itoa(clients), "-j",
		strconv.Itoa(min(clients, 2)),
		"-T", strconv.Itoa(int(max(1, seconds))), "PGOPTIONS=-c synchronous_commit=" + commit}
	for _, way := range ways {
		args = append(args, "-f", b.script(way))
	}
	return b.pgbench(ctx, args...)
}

// pgbench runs pgbench over the Unix socket. Arguments that begin with PG are variables of its
// environment, which has no others of Postgres.
func (b *bench) pgbench(ctx context.Context, args ...string) (string, error) {
	program := b.pg.Program("pgbench")
	if _, err := os.Stat(program); err != nil {
		program = "pgbench"
	}
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	for _, a := range args {
		if len(a) > 2 && a[:2] == "PG" {
			cmd.Env = append(cmd.Env, a)
		} else {
			cmd.Args = append(cmd.Args, a)
		}
	}
	cmd.Args = append(cmd.Args, b.pg.URL(app, "postgres"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", cmd, err, out)
	}
	return string(out), nil
}
