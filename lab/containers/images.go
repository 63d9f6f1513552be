package containers

import (
	"context"
	"io"
	"sync"
)

// built has the images that this process has made: they do not change while it runs.
var built struct {
	sync.Mutex
	guard map[string]bool
}

// Images makes the images that systems are built from, as far as they are not up to date. That takes minutes the first
// time, and seconds later. Build does it too; whoever calls this first can allow more time for it.
func Images(ctx context.Context, log io.Writer) error {
	program, err := findCompose(ctx)
	if err != nil {
		return err
	}
	root, err := findRoot()
	if err != nil {
		return err
	}
	c := &compose{program: program, root: root, files: []string{composeFile}, project: "ringfence", log: log}
	for _, target := range []string{soundGuard, flawedGuard} {
		if err := c.images(ctx, target); err != nil {
			return err
		}
	}
	return nil
}

// Targets of the Dockerfile that guards are.
const (
	soundGuard  = "guard"
	flawedGuard = "flawed-guard"
)

// images makes all images, with guards from this target.
func (c *compose) images(ctx context.Context, guard string) error {
	built.Lock()
	defer built.Unlock()
	if built.guard[guard] {
		return nil
	}
	with := *c
	with.env = append(c.env[:len(c.env):len(c.env)], "GUARD_TARGET="+guard)
	if _, err := with.run(ctx, "--profile", "lab", "build", "install", "guard-1", "worker-1", "netfault"); err != nil {
		return err
	}
	if built.guard == nil {
		built.guard = map[string]bool{}
	}
	built.guard[guard] = true
	return nil
}
