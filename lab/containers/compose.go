package containers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// composeFile marks the root of the repository.
const composeFile = "compose.yaml"

// compose runs the compose program for one project.
type compose struct {
	program []string
	root    string   // of the repository
	files   []string // compose.yaml, and the changes of a run
	project string
	env     []string // variables of compose.yaml
	log     io.Writer
}

// run runs a command and returns its standard output. Its standard error goes to the log, and the
// last lines of it into the error.
func (c *compose) run(ctx context.Context, args ...string) (string, error) {
	all := slices.Concat(c.program[1:], []string{"--project-directory", c.root, "-p", c.project})
	for _, f := range c.files {
		all = append(all, "-f", f)
	}
	cmd := exec.CommandContext(ctx, c.program[0], append(all, args...)...)
	cmd.Dir = c.root
	cmd.Env = append(os.Environ(), c.env...)
	// An interrupt at the terminal must reach only the lab, which then cleans up.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, io.MultiWriter(&errs, c.log)
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = errors.Join(context.Cause(ctx), err)
		}
		return out.String(), fmt.Errorf("%s %s: %w\n%s", strings.Join(c.program, " "),
			strings.Join(args, " "), err, lastLines(errs.String()+out.String(), 12))
	}
	return out.String(), nil
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// findRoot finds the nearest directory from here upwards with a compose.yaml beside the lab.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		proxies := filepath.Join(dir, "lab", "containers", "toxiproxy.json")
		if exists(filepath.Join(dir, composeFile)) && exists(proxies) {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("no %s of Ringfence in this directory or above it: "+
				"run the lab inside a checkout", composeFile)
		}
		dir = parent
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
