package containers

import (
	"context"
	"io"
	"sync"

	"github.com/ringfence/ringfence/lab/scenario"
)

// built has the images that this process has built: they do not change while it runs.
var built struct {
	sync.Mutex
	images map[string]bool // by target and service
}

// Images builds the images for systems with a coordinator, if they are not up to date. That takes
// minutes the first time, and seconds later. Build does it too, but Images can be given more time.
func Images(ctx context.Context, in scenario.Elections, log io.Writer) error {
	program, err := findCompose(ctx)
	if err != nil {
		return err
	}
	root, err := findRoot()
	if err != nil {
		return err
	}
	with := allCoordinators[in]
	c := &compose{
		program: program, root: root, files: with.files(root), project: "ringfence", log: log,
	}
	for _, target := range []string{soundGuard, flawedGuard} {
		if err := c.images(ctx, target, with); err != nil {
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
func (c *compose) images(ctx context.Context, guard string, in coordinator) error {
	built.Lock()
	defer built.Unlock()
	key := guard + " " + in.image
	if built.images[key] {
		return nil
	}
	with := *c
	with.env = append(c.env[:len(c.env):len(c.env)], "GUARD_TARGET="+guard)
	build := []string{"--profile", "lab", "build", "install", "guard-1", "worker-1", "netfault"}
	if in.image != "" {
		build = append(build, in.image)
	}
	if _, err := with.run(ctx, build...); err != nil {
		return err
	}
	if built.images == nil {
		built.images = map[string]bool{}
	}
	built.images[key] = true
	return nil
}
