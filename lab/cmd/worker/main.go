// Command worker is the program under test of the lab: see package worker. Its settings are
// environment variables, LAB_….
//
//	worker            runs until SIGTERM
//	worker -health    checks the health of the worker at LAB_HTTP_LISTEN: exit code 0 or 1
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/ringfence/ringfence/lab/worker"
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	flags := flag.NewFlagSet("worker", flag.ContinueOnError)
	health := flags.Bool("health", false, "check the health of the worker at LAB_HTTP_LISTEN")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	if *health {
		return exitCode(worker.Healthy(context.Background(), os.Getenv("LAB_HTTP_LISTEN")), 1)
	}
	c, err := worker.Load(os.Environ())
	if err != nil {
		return exitCode(err, 2)
	}
	ending := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if c.Child == worker.IgnoreTerm {
		signal.Ignore(syscall.SIGTERM)
		ending = ending[:1]
	}
	ctx, stop := signal.NotifyContext(context.Background(), ending...)
	defer stop()
	return worker.Run(ctx, c, os.Stdout, os.Stderr)
}

// exitCode returns 0, or prints an error and returns its code.
func exitCode(err error, code int) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "worker:", err)
	return code
}
