package election

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ringfence/ringfence/bench/internal/program"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
)

// Child is a process that stands for election, once for each number of terms that it reads from
// stdin. It prints "open" once its coordinator is open, and "leads" when it has won them all. It
// ends with its stdin.
func Child(ctx context.Context, args []string, out io.Writer) error {
	url, resource := args[0], args[1]
	timeout, err := time.ParseDuration(args[2])
	if err != nil {
		return err
	}
	c, err := open(ctx, url, timeout)
	if err != nil {
		return err
	}
	defer c.Close()
	say := func(what string) {
		debug.FreeOSMemory() // so that the memory is what is in use
		fmt.Fprintln(out, what)
	}
	if resource == severalResources {
		say("open") // only where memory is measured
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		n, err := strconv.Atoi(lines.Text())
		if err != nil {
			return err
		}
		if err := campaignFor(ctx, c, resource, n); err != nil {
			return err
		}
		if resource == severalResources {
			say("leads")
		} else {
			fmt.Fprintln(out, "leads") // at once: this is a measured moment
		}
	}
	return lines.Err()
}

// severalResources makes a child lead several resources.
const severalResources = "several"

func campaignFor(ctx context.Context, c elector.Coordinator, resource string, terms int) error {
	var g errgroup.Group
	for i := range terms {
		r := fence.Resource(resource)
		if resource == severalResources {
			r = fence.Resource(fmt.Sprintf("r%d", i))
		}
		g.Go(func() error {
			_, err := c.Campaign(ctx, r, "bench:1")
			return err
		})
	}
	return g.Wait()
}

// child is such a process.
type child struct {
	*program.Child
	lines chan string // what it prints
}

func startChild(url, resource string, timeout time.Duration) (*child, error) {
	c := &child{lines: make(chan string, 8)}
	var err error
	c.Child, err = program.StartChild("election", func(line string) {
		c.lines <- line
	}, url, resource, timeout.String())
	return c, err
}

// campaign makes the child stand for election.
func (c *child) campaign(terms int) error {
	_, err := fmt.Fprintln(c.Stdin, terms)
	return err
}

// says waits for a line.
func (c *child) says(ctx context.Context, want string) error {
	select {
	case line := <-c.lines:
		if line != want {
			return fmt.Errorf("a child says %q, not %q", line, want)
		}
		return nil
	case <-c.Ended:
		return errors.New("a child has ended")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// resident returns the memory of the child in bytes (Linux).
func (c *child) resident() (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", c.PID()))
	if err != nil {
		return 0, err
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	return pages * os.Getpagesize(), err
}
