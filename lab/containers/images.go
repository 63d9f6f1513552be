package containers

import (
	"context"
	"io"
	"sync"
)

// built has the images that this process has built: they do not change while it runs.
var built struct {
	sync.Mutex
	guard map[string]bool
}

// Images builds the images for systems, if they are not up to date. That takes minutes the first
// time, and seconds later. Build does it too, but Images can be given more time.
func Images(ctx context.Context, log io.Writer) error {
	program, err := findCompose(ctx)
	if err != nil {
		return err
	}
	root, err := findRoot()
	if err != nil {
		return err
	}
	c := &compose{
		program: program, root: root, files: []string{composeFile}, project: "ringfence", log: log,
	}
	for _, target := range []string{soundGuard, flawedGuard} {
		if err := c.images(ctx, target); err != nil {
			return err
		}
	}
	return nil
}

// The targets of the Dockerfile for guards.
const (
	soundGuard  = "guard"
	flawedGuard = "flawed-guard"
)

// images builds all images, with guards from a target.
func (c *compose) images(ctx context.Context, guard string) error {
	built.Lock()
	defer built.Unlock()
	if built.guard[guard] {
		return nil
	}
	with := *c
	with.env = append(c.env[:len(c.env):len(c.env)], "GUARD_TARGET="+guard)
	_, err := with.run(ctx, "--profile", "lab", "build", "install", "guard-1", "worker-1",
		"netfault")
	if err != nil {
		return err
	}
	if built.guard == nil {
		built.guard = map[string]bool{}
	}
	built.guard[guard] = true
	return nil
}
