package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/cmd/internal/logging"
	"github.com/ringfence/ringfence/internal/process"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(adopting(ctx))
}

// adopting runs guard as the parent of what its password commands leave behind.
func adopting(ctx context.Context) int {
	defer process.AdoptOrphans()()
	return logged(ctx)
}

// logged runs guard with a log that it never waits for.
func logged(ctx context.Context) int {
	stderr := logging.Open(os.Stderr)
	defer stderr.Close()
	// A second signal ends the wait for a reader of the output.
	stdout := logging.NewOutput(context.Background(), os.Stdout)
	return run(ctx, os.Args[1:], os.Environ(), stdout, stderr)
}

func run(ctx context.Context, args, env []string, stdout, stderr io.Writer) int {
	p := &program{Streams: cli.Streams{Env: env, Stdout: stdout, Stderr: stderr}}
	return p.run(ctx, args)
}
