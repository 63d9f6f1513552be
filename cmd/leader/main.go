package main

import (
	"context"
	"io"
	"os"
	_ "time/tzdata" // for --every on machines without zones, such as small images

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/cmd/internal/logging"
	"github.com/ringfence/ringfence/cmd/leader/internal/stores"
	"github.com/ringfence/ringfence/cmd/leader/internal/supervise"
	"github.com/ringfence/ringfence/cmd/leader/internal/tasks"
	"github.com/ringfence/ringfence/internal/coordinators"
	"github.com/ringfence/ringfence/internal/process"
)

func main() { os.Exit(adopting()) }

// adopting runs leader as the parent of what its commands leave behind.
func adopting() int {
	defer process.AdoptOrphans()()
	return logged()
}

// logged runs leader with a log that it never waits for.
func logged() int {
	stderr := logging.Open(os.Stderr)
	defer stderr.Close()
	stdout := logging.NewOutput(context.Background(), os.Stdout)
	return run(context.Background(), os.Args[1:], os.Environ(), os.Stdin, stdout, stderr)
}

func run(ctx context.Context, args, env []string, stdin io.Reader, stdout, stderr io.Writer) int {
	p := &program{
		Streams:  cli.Streams{Env: env, Stdin: stdin, Stdout: stdout, Stderr: stderr},
		electors: coordinators.All, stores: stores.All, journals: tasks.AllJournals,
		notify: supervise.Notify,
	}
	return p.run(ctx, args)
}
