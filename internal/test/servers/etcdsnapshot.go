package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

func (e *Etcd) snapshot() string { return filepath.Join(e.dir, "snapshot.db") }

// Backup saves a snapshot with etcdctl, while the cluster works. [Etcd.Restore] goes back to it. It
// returns a [MissingError] if etcdctl is not installed.
func (e *Etcd) Backup(ctx context.Context) error {
	etcdctl, _, err := system().etcdTools()
	if err != nil {
		return err
	}
	if err := os.RemoveAll(e.snapshot()); err != nil {
		return err
	}
	return etcdTool(ctx, etcdctl, "--endpoints", e.Members[0].Addr(),
		"snapshot", "save", e.snapshot())
}

// Restore kills the cluster, restores the last snapshot for every member as etcd's manual says
// (https://etcd.io/docs/v3.5/op-guide/recovery), and starts the members. The names, peer addresses
// and cluster token are the same, so it has the same cluster id. Its revisions have gone back.
func (e *Etcd) Restore(ctx context.Context) error {
	_, tool, err := system().etcdTools()
	if err != nil {
		return err
	}
	if err := e.Kill(); err != nil {
		return err
	}
	for _, m := range e.Members {
		args := append([]string{"snapshot", "restore", e.snapshot()}, e.membership(m)...)
		if err := errors.Join(m.wipe(), etcdTool(ctx, tool, args...)); err != nil {
			return err
		}
	}
	return e.Start(ctx)
}

func etcdTool(ctx context.Context, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "ETCDCTL_API=3") // the default since etcd 3.4
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(program), err, out)
	}
	return nil
}

// etcdTools returns the program that saves a snapshot of etcd, and the one that restores it. Since
// etcd 3.6 they are two.
func (p places) etcdTools() (save, restore string, err error) {
	if save = first(p.path, "etcdctl"); save == "" {
		return "", "", missing("etcdctl", "etcd-client", "etcd")
	}
	return save, cmp.Or(first(p.path, "etcdutl"), save), nil
}
