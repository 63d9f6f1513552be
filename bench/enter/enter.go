// Package enter measures what ringfence.enter costs in every transaction: pgbench -N with it, in one
// message with BEGIN, beside the same without it.
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

	"github.com/ringfence/ringfence/bench/internal/program"
	"github.com/ringfence/ringfence/bench/internal/report"
	"github.com/ringfence/ringfence/bench/internal/rounds"
	"github.com/ringfence/ringfence/fence"
	pgmarks "github.com/ringfence/ringfence/internal/marks/postgres"
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
	with    = "enter"

	scale   = 10
	control = "guard" // the role that raises
	app     = "app"
)

var claim = fence.Claim{Resource: "orders", Token: 5, Issuer: "bench:a", Holder: "bench", Candidate: "a"}

// scripts are pgbench -N, and the same with enter.
var scripts = map[string]string{
	without: fmt.Sprintf(script, "BEGIN;"),
	with: fmt.Sprintf(script, fmt.Sprintf(`BEGIN\; SELECT ringfence.enter('%s', %d, '%s', '%s');`,
		claim.Resource, claim.Token, claim.Issuer, claim.Candidate)),
}

const script = `\set aid random(1, 100000 * :scale)
\set bid random(1, :scale)
\set tid random(1, 10 * :scale)
\set delta random(-5000, 5000)
%s
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
	for _, commit := range []string{"on", "off"} {
		for _, clients := range []int{1, 8} {
			row := r.Row(report.Row{
				Name: fmt.Sprintf("pgbench -N, synchronous_commit %s, %d clients", commit, clients), Unit: "tps",
				Bar: &report.Bar{Way: with, Against: without, Limit: map[string]float64{"on": 0.95, "off": 0.85}[commit]},
			})
			if !s.Wants(row.Name) {
				continue
			}
			fmt.Fprintln(progress, row.Name)
			for round := range s.Rounds {
				for _, way := range rounds.Turn([]string{without, with}, round) {
					tps, err := b.run(ctx, way, commit, clients)
					if err != nil {
						return nil, err
					}
					row.Add(way, tps)
				}
			}
		}
	}
	return r, nil
}

// bench is a server with pgbench's tables, and a mark.
type bench struct {
	pg      *servers.Postgres
	dir     string
	seconds float64
}

func (b *bench) prepare(ctx context.Context) error {
	for way, text := range scripts {
		if err := os.WriteFile(b.script(way), []byte(text), 0o644); err != nil {
			return err
		}
	}
	admin, err := pgmarks.Connect(ctx, b.pg.URL("postgres", "postgres"))
	if err != nil {
		return err
	}
	defer admin.Close(context.WithoutCancel(ctx))
	for _, sql := range []string{
		"create role " + control + " login", "create role " + app + " login", "grant create on schema public to " + app,
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
	_, err = b.pgbench(ctx, "-i", "-q", "-s", strconv.Itoa(scale))
	return err
}

func (b *bench) script(way string) string { return filepath.Join(b.dir, way+".sql") }

// run makes one measurement, in transactions per second.
func (b *bench) run(ctx context.Context, way, commit string, clients int) (float64, error) {
	admin, err := pgmarks.Connect(ctx, b.pg.URL(app, "postgres"))
	if err != nil {
		return 0, err
	}
	defer admin.Close(context.WithoutCancel(ctx))
	// The updates of earlier measurements would slow down the later ones.
	for _, sql := range []string{"truncate pgbench_history", "vacuum pgbench_accounts"} {
		if _, err := admin.Exec(ctx, sql); err != nil {
			return 0, err
		}
	}
	out, err := b.pgbench(ctx, "-n", "-f", b.script(way), "-D", fmt.Sprintf("scale=%d", scale), "-c", strconv.Itoa(clients),
		"-j", strconv.Itoa(min(clients, 2)), "-T", strconv.Itoa(int(max(1, b.seconds))), "PGOPTIONS=-c synchronous_commit="+commit)
	if err != nil {
		return 0, err
	}
	found := perSecond.FindStringSubmatch(out)
	if found == nil {
		return 0, fmt.Errorf("pgbench printed no tps: %s", out)
	}
	return strconv.ParseFloat(found[1], 64)
}

var perSecond = regexp.MustCompile(`(?m)^tps = ([\d.]+) `)

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
