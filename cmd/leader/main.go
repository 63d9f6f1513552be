package main

import (
	"context"
	"io"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}

func run(ctx context.Context, args, env []string, stdin io.Reader, stdout, stderr io.Writer) int {
	p := &program{
		env: env, stdin: stdin, stdout: stdout, stderr: stderr,
		electors: electors, stores: stores, journals: journals, notify: notify,
	}
	return p.run(ctx, args)
}
