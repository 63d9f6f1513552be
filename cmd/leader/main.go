package main

import (
	"context"
	"io"
	"os"

	"github.com/ringfence/ringfence/internal/cli"
	"github.com/ringfence/ringfence/internal/coordinators"
	"github.com/ringfence/ringfence/internal/stores"
	"github.com/ringfence/ringfence/internal/supervise"
	"github.com/ringfence/ringfence/internal/tasks"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}

func run(ctx context.Context, args, env []string, stdin io.Reader, stdout, stderr io.Writer) int {
	p := &program{
		Streams:  cli.Streams{Env: env, Stdin: stdin, Stdout: stdout, Stderr: stderr},
		electors: coordinators.All, stores: stores.All, journals: tasks.AllJournals,
		notify: supervise.Notify,
	}
	return p.run(ctx, args)
}
