// Command merchants settles the orders of each merchant, every night, on any number of machines.
// README.md says how to run it.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/ringfence/ringfence/fence/etcd"
	"github.com/ringfence/ringfence/jobs"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "merchants:", err)
		stop()
		os.Exit(1)
	}
}

// group is the group of workers.
const group = "settlement"

// sessionTimeout is after how long the jobs of a worker that died go to others.
const sessionTimeout = 6 * time.Second

func run(ctx context.Context, args []string) error {
	coordinator, err := etcd.Open(ctx, os.Getenv("COORDINATOR"), etcd.Options{
		SessionTimeout: sessionTimeout, Logger: slog.Default(),
	})
	if err != nil {
		return err
	}
	defer coordinator.Close()
	queue, err := jobs.New(coordinator, group)
	if err != nil {
		return err
	}
	switch {
	case len(args) == 1 && args[0] == "work":
		return work(ctx, queue, os.Getenv("DATABASE"))
	case len(args) == 2 && args[0] == "submit":
		return submit(ctx, queue, os.Getenv("ORDERS"), args[1])
	}
	return errors.New("usage: merchants work | merchants submit DAY")
}
