package proxies

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ringfence/ringfence/bench/internal/ways"
)

// runTLS is run for connections with TLS, which need a goroutine for each client: the load takes
// more of the CPU, with every way the same.
func (l load) runTLS(ctx context.Context, w *ways.Way) (o outcome, err error) {
	conns := make([]net.Conn, l.clients)
	defer func() {
		for _, c := range conns {
			if c != nil {
				err = errors.Join(err, c.Close())
			}
		}
	}()
	for i := range conns {
		if conns[i], err = w.DialRedis(ctx, ways.Resource, 1); err != nil {
			return o, err
		}
	}
	var commands atomic.Int64
	start := time.Now()
	g, ctx := errgroup.WithContext(ctx)
	for _, c := range conns {
		g.Go(func() error {
			n, err := l.pipelines(ctx, c, start.Add(l.time))
			commands.Add(int64(n))
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return o, err
	}
	n := float64(commands.Load())
	return outcome{value: n / time.Since(start).Seconds(), operations: n}, nil
}

// pipelines sends one after the other until the deadline, and returns the number of commands that
// were answered.
func (l load) pipelines(
	ctx context.Context, c net.Conn, deadline time.Time,
) (commands int, err error) {
	request, expected := bytes.Repeat(l.command, l.depth), bytes.Repeat(l.reply, l.depth)
	got := make([]byte, len(expected))
	if err := c.SetDeadline(deadline.Add(replyLimit)); err != nil {
		return 0, err
	}
	for time.Now().Before(deadline) && ctx.Err() == nil {
		if _, err := c.Write(request); err != nil {
			return commands, err
		}
		if _, err := io.ReadFull(c, got); err != nil {
			return commands, err
		}
		if !bytes.Equal(got, expected) {
			return commands, fmt.Errorf("the reply is %q", got[:min(len(got), 200)])
		}
		commands += l.depth
	}
	return commands, ctx.Err()
}
