// Package program is what all benchmark programs do around their measurements.
package program

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Run is a program: it writes its report to out, and its progress and the description of its flags to
// diagnostics.
type Run func(ctx context.Context, args []string, out, diagnostics io.Writer) error

// Main runs a program until it has ended or is told to end by a signal. It exits with 1 after an
// error.
func Main(run Run) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}
