// Command bench measures what Ringfence costs. Each subcommand is one benchmark, and a make target:
//
//	bench postgres -rows 'select prepared' -seconds 1
//	make bench-pg BENCH_ARGS="-rows 'select prepared' -seconds 1"
//
// Compare numbers within a run, never between machines: servers, proxies and clients share one
// machine.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/ringfence/ringfence/bench/checkpoint"
	"github.com/ringfence/ringfence/bench/election"
	"github.com/ringfence/ringfence/bench/enter"
	"github.com/ringfence/ringfence/bench/failover"
	"github.com/ringfence/ringfence/bench/internal/program"
	"github.com/ringfence/ringfence/bench/jobs"
	"github.com/ringfence/ringfence/bench/memory"
	"github.com/ringfence/ringfence/bench/proxies"
	"github.com/ringfence/ringfence/bench/takeover"
)

var benchmarks = []struct {
	name, about string
	make        func() program.Benchmark
	child       program.ChildMain // of a benchmark that starts processes of its own
}{
	{"checkpoint", "a checkpointed step: no fence, fence, guard, by hand, River", checkpoint.New, nil},
	{"postgres", "Postgres: direct, through a guard, and through the proxies that are installed",
		proxies.Postgres, nil},
	{"redis", "Redis, the same", proxies.Redis, nil},
	{"takeover", "how long a new leader waits for the end of up to 1,000 older sessions", takeover.New,
		nil},
	{"memory", "memory of idle sessions, growth, logins per second, 100,000 marks", memory.New, nil},
	{"election", "elections with up to 1,000 candidates, a process with 1,000, and an agent with " +
		"10,000", election.New, election.Child},
	{"enter", "ringfence.enter in every transaction of pgbench -N, beside the same without it",
		enter.New, nil},
	{"failover", "leaders' writes while Patroni or Sentinel fails over: without and with guards",
		failover.New, nil},
	{"jobs", "jobs: submitted, assigned and done per second, latency, recovery; beside River",
		jobs.New, jobs.Child},
}

func main() { program.Main(func(ctx context.Context) error { return run(ctx, os.Args[1:]) }) }

func run(ctx context.Context, args []string) error {
	name := ""
	if len(args) > 0 {
		name = args[0]
	}
	for _, b := range benchmarks {
		switch {
		case b.name != name:
		case program.IsChild():
			return b.child(ctx, args[1:], os.Stdout)
		default:
			return program.Run(ctx, b.make(), name, args[1:], os.Stdout, os.Stderr)
		}
	}
	fmt.Fprintln(os.Stderr, "usage: bench BENCHMARK [FLAGS]; -h behind a benchmark lists its flags")
	for _, b := range benchmarks {
		fmt.Fprintf(os.Stderr, "  %-11s %s\n", b.name, b.about)
	}
	if name == "" || name == "-h" || name == "-help" || name == "--help" {
		return nil
	}
	return fmt.Errorf("there is no benchmark %q", name)
}
