package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/ringfence/ringfence/lab"
	"github.com/ringfence/ringfence/lab/report"
)

// publish copies the history of a run into a directory, judges it there, and adds what a reader
// needs to judge it again. It copies no logs.
func publish(ctx context.Context, to, run string) error {
	dir := filepath.Join(to, filepath.Base(run))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	events, err := os.ReadFile(filepath.Join(run, lab.HistoryFile))
	if err != nil {
		return err
	}
	file := filepath.Join(dir, lab.HistoryFile)
	err = errors.Join(os.WriteFile(file, events, 0o644),
		os.WriteFile(filepath.Join(to, report.FormatFile), lab.Format, 0o644),
		os.WriteFile(filepath.Join(to, report.CheckerFile), lab.SecondChecker, 0o755))
	if err != nil {
		return err
	}
	_, err = judge(ctx, file)
	return err
}
