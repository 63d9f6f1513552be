package servers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
)

// Backup copies the data directory of a running server. It pauses the processes meanwhile, so the
// copy is like a snapshot of the disk.
func (p *Postgres) Backup(ctx context.Context) error {
	if err := p.copyTo(ctx, p.backup()); err != nil {
		return fmt.Errorf("back up %s: %w", p.spec.name, err)
	}
	return nil
}

// Restore kills the server, replaces its data by the last backup, and starts it again.
func (p *Postgres) Restore(ctx context.Context) error {
	if err := p.Kill(); err != nil {
		return err
	}
	removeSharedMemory(p.data) // before its id in the data directory is gone
	if err := os.RemoveAll(p.data); err != nil {
		return err
	}
	if err := p.run(ctx, "cp", "-a", p.backup(), p.data); err != nil {
		return err
	}
	return p.Start(ctx)
}

func (p *Postgres) backup() string { return filepath.Join(p.spec.dir, "backup") }

// copyTo copies the data without postmaster.pid, which names the running processes.
func (p *Postgres) copyTo(ctx context.Context, dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := p.Pause(); err != nil {
		return err
	}
	err := errors.Join(p.run(ctx, "cp", "-a", p.data, dir), p.Resume())
	return errors.Join(err, os.Remove(filepath.Join(dir, "postmaster.pid")))
}

// StartCopy starts another server from a copy of this one's present data: the same system
// identifier, timeline, roles and rows, on another port.
func (p *Postgres) StartCopy(ctx context.Context, name string) (*Postgres, error) {
	dir, err := newDir("pg", p.spec.account)
	if err != nil {
		return nil, err
	}
	c := newPostgres(name, p.spec.command()[0], dir, p.spec.account, p.settings)
	if err := errors.Join(p.copyTo(ctx, c.data), c.configure(ctx)); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// StartStandby starts a standby on another port, which streams from this server.
func (p *Postgres) StartStandby(ctx context.Context, name string) (*Postgres, error) {
	dir, err := newDir("pg", p.spec.account)
	if err != nil {
		return nil, err
	}
	settings := maps.Clone(p.settings)
	if settings == nil {
		settings = map[string]string{}
	}
	settings["primary_conninfo"] = fmt.Sprintf("host=%s port=%d user=postgres", host, p.port)
	c := newPostgres(name, p.spec.command()[0], dir, p.spec.account, settings)
	err = p.copyTo(ctx, c.data)
	if err == nil {
		err = c.spec.account.writeFile(filepath.Join(c.data, "standby.signal"), "")
	}
	if err == nil {
		err = c.configure(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}
