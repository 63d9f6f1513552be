// Command demo shows what a paused leader does to databases, without the guard and through it. It
// starts real ZooKeeper, Postgres and Redis servers. `make demo` runs it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "worker" {
		return work(ctx, args[1:])
	}
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	guard := flags.String("guard", "bin/guard", "the guard program")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	p := printer{os.Stdout, isTerminal(os.Stdout)}
	p.title("Ringfence: a leader is paused between its check and its write")
	s, err := setStage(ctx, p, *guard)
	if err != nil {
		return err
	}
	defer s.close()
	return play(ctx, p, s)
}

// play runs the same scene twice. It fails unless the first corrupts the balance and the second
// does not.
func play(ctx context.Context, p printer, s *stage) error {
	p.act("1", "Without the guard: both leaders talk to the databases directly")
	without, err := scene(ctx, p, s, direct(s))
	if err != nil {
		return err
	}
	if err := s.reset(ctx); err != nil {
		return err
	}
	p.act("2", "Through the guard: the same program, the same pause, other addresses and a token")
	with, err := scene(ctx, p, s, guarded(s))
	if err != nil {
		return err
	}
	if err := s.showStatus(ctx, p); err != nil {
		return err
	}
	p.verdict(without, with)
	if !without.corrupt() || with.corrupt() {
		return fmt.Errorf("the demo did not show what it should: %+v without the guard, %+v with it",
			without, with)
	}
	return nil
}
