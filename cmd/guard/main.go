package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/ringfence/ringfence/internal/program/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

func run(ctx context.Context, args, env []string, stdout, stderr io.Writer) int {
	p := &program{Streams: cli.Streams{Env: env, Stdout: stdout, Stderr: stderr}}
	return p.run(ctx, args)
}
