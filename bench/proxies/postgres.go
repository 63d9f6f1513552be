package proxies

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/ringfence/ringfence/bench/internal/report"
	"github.com/ringfence/ringfence/bench/internal/ways"
)

// clientCounts are how many clients pgbench has: one, a few for each core, and many.
var clientCounts = []int{1, 8, 32}

// postgresNotes explain the rows.
var postgresNotes = []string{
	"select and update: pgbench -S and -N, transactions. connect: pgbench -S -C, a new connection " +
		"for each transaction. copy: one statement that moves rows of 1 kB, and stores nothing. " +
		"latency: one prepared statement of one client, the ways in turns at each round trip.",
	"The CPU time is that of the proxy, for each transaction, connection, megabyte or round trip.",
	"PgBouncer keeps its sessions in Postgres open, so connect through it is no login there.",
	"synchronous_commit and full_page_writes are off: the disk would hide the rest.",
}

// measurePostgres runs the rows of Postgres.
func measurePostgres(
	ctx context.Context, s *settings, progress io.Writer,
) (r *report.Report, err error) {
	stage, err := ways.StartPostgres(ctx, ways.Options{
		Guard: s.Guard, Peers: true, TLS: s.tls, Progress: progress, Settings: map[string]string{
			"synchronous_commit": "off", "shared_buffers": "1GB", // two databases of 160 MB
			// Neither a checkpoint nor a vacuum may come during a measurement: the writes of one way
			// would cost another.
			"checkpoint_timeout": "1h", "max_wal_size": "16GB", "autovacuum": "off",
			// The first change of a page costs more, and direct sessions have pages of their own.
			"full_page_writes": "off",
		},
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stage.Close()) }()
	r = report.New(s.suite("postgres"), s.Options)
	r.Programs, r.Notes = stage.Programs, postgresNotes
	trials := postgresTrials(r, s, stage)
	if err := initialise(ctx, stage, s.scale); err != nil {
		return nil, err
	}
	return r, runTrials(ctx, trials, stage.Ways, s.Rounds, progress)
}

// suite is the name of a report.
func (s *settings) suite(database string) string {
	if s.tls {
		return database + " with TLS"
	}
	return database
}

// postgresTrials returns the trials whose rows the flags choose.
func postgresTrials(r *report.Report, s *settings, stage *ways.Postgres) (trials []trial) {
	add := func(row report.Row, measure func(context.Context, *ways.Way) (outcome, error)) {
		if s.Wants(row.Name) {
			row.Bar = &report.Bar{Way: ways.Guard, Against: ways.PgBouncer, Limit: 1}
			trials = append(trials, each(r.Row(row), measure))
		}
	}
	for _, b := range pgbenchRows() {
		add(report.Row{Name: b.name(), Unit: "tps"},
			func(ctx context.Context, w *ways.Way) (outcome, error) { return b.run(ctx, s, stage, w) })
	}
	c := copies{megabytes: s.copyMegabytes}
	add(report.Row{Name: "copy in", Unit: "MB/s"}, c.in)
	add(report.Row{Name: "copy out", Unit: "MB/s"}, c.out)
	bar := report.Bar{Way: ways.Guard, Against: ways.PgBouncer, Limit: 1}
	return append(trials, latencyTrials(r, s, "latency", bar, dialPostgres)...)
}

// pgbenchRows are the runs of pgbench.
func pgbenchRows() (all []pgbench) {
	for _, script := range []string{"select", "update"} {
		for _, mode := range []string{"prepared", "simple"} {
			for _, clients := range clientCounts {
				all = append(all, pgbench{script: script, mode: mode, clients: clients})
			}
		}
	}
	for _, clients := range []int{1, 8} {
		all = append(all, pgbench{script: "select", mode: "simple", clients: clients, connect: true})
	}
	return all
}

// name is the name of the row.
func (b pgbench) name() string {
	if b.connect {
		return fmt.Sprintf("connect c=%d", b.clients)
	}
	return fmt.Sprintf("%s %s c=%d", b.script, b.mode, b.clients)
}
