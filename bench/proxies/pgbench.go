package proxies

import (
	"context"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"

	"github.com/ringfence/ringfence/bench/internal/ways"
)

// pgbench is one run of pgbench.
type pgbench struct {
	script  string // select (-S) or update (-N)
	mode    string // of the protocol: prepared or simple
	clients int
	connect bool // a new connection for each transaction
}

// initialise fills pgbench's tables.
func initialise(ctx context.Context, s *ways.Postgres, scale int) error {
	for _, w := range s.Ways {
		if w.Name != ways.Direct && w.Name != ways.Session {
			continue // it leads to the same database
		}
		_, err := runPgbench(ctx, s, w, "-i", "-q", "-s", strconv.Itoa(scale))
		if err != nil {
			return err
		}
	}
	// What autovacuum would do later, in the middle of a measurement. The table is for the COPY rows.
	return s.Exec(ctx, "vacuum analyze", "create table copied (line text)",
		"grant all on copied to "+ways.User)
}

// run makes one measurement, in transactions per second.
func (b pgbench) run(
	ctx context.Context, s *settings, stage *ways.Postgres, w *ways.Way,
) (outcome, error) {
	if b.script == "update" {
		// The updates of earlier measurements would slow down the later ones.
		err := stage.Exec(ctx, "truncate pgbench_history", "vacuum pgbench_accounts, pgbench_tellers, "+
			"pgbench_branches")
		if err != nil {
			return outcome{}, err
		}
	}
	out, err := runPgbench(ctx, stage, w, b.args(s.Seconds)...)
	if err != nil {
		return outcome{}, err
	}
	return parsePgbench(out)
}

func (b pgbench) args(seconds float64) []string {
	script := "-S"
	if b.script == "update" {
		script = "-N"
	}
	// pgbench knows only whole seconds.
	args := []string{
		"-n", script, "-M", b.mode, "-c", strconv.Itoa(b.clients), "-j", strconv.Itoa(min(b.clients, 2)),
		"-T", strconv.Itoa(int(max(1, math.Round(seconds)))),
	}
	if b.connect {
		args = append(args, "-C")
	}
	return args
}

// runPgbench runs pgbench over a way and returns its output. Its environment has no other settings
// of Postgres than these.
func runPgbench(
	ctx context.Context, s *ways.Postgres, w *ways.Way, args ...string,
) (string, error) {
	host, port, err := net.SplitHostPort(w.Addr)
	if err != nil {
		return "", err
	}
	program := s.Server.Program("pgbench")
	if _, err := os.Stat(program); err != nil {
		program = "pgbench"
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "PGHOST=" + host, "PGPORT=" + port, "PGUSER=" + ways.User,
		"PGDATABASE=" + w.Database, "PGSSLMODE=" + w.SSLMode(), "PGGSSENCMODE=disable",
		"PGOPTIONS=" + ways.StartupOptions(ways.Resource, 1),
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", cmd, err, out)
	}
	return string(out), nil
}

var (
	transactions = regexp.MustCompile(`(?m)^number of transactions actually processed: (\d+)`)
	failures     = regexp.MustCompile(`(?m)^number of failed transactions: (\d+)`)
	perSecond    = regexp.MustCompile(`(?m)^tps = ([\d.]+) `)
)

// parsePgbench reads what pgbench prints at its end. It is an error if a transaction has failed.
func parsePgbench(out string) (o outcome, err error) {
	for pattern, to := range map[*regexp.Regexp]*float64{
		transactions: &o.operations, perSecond: &o.value,
	} {
		found := pattern.FindStringSubmatch(out)
		if found == nil {
			return o, fmt.Errorf("pgbench printed no %q: %s", pattern, out)
		}
		if *to, err = strconv.ParseFloat(found[1], 64); err != nil {
			return o, err
		}
	}
	if failed := failures.FindStringSubmatch(out); failed != nil && failed[1] != "0" {
		return o, fmt.Errorf("%s transactions failed: %s", failed[1], out)
	}
	return o, nil
}
