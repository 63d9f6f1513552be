package proxies

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/bench/internal/ways"
)

// copies moves many rows by COPY. Nothing is stored and nothing is read from a disk: the server
// makes the rows, or drops them after it has parsed them.
type copies struct{ megabytes int }

// line is a row of COPY's text format with its newline: 1,000 bytes.
var line = append(bytes.Repeat([]byte("x"), 999), '\n')

const linesOfMegabyte = 1000

func (c copies) in(ctx context.Context, w *ways.Way) (outcome, error) {
	return c.timed(ctx, w, func(conn *pgconn.PgConn) error {
		lines := &lines{block: bytes.Repeat(line, 64), left: c.megabytes * 1e6}
		_, err := conn.CopyFrom(ctx, lines, "copy copied from stdin where false")
		if err == nil && lines.left > 0 {
			err = fmt.Errorf("%d bytes were not sent", lines.left)
		}
		return err
	})
}

func (c copies) out(ctx context.Context, w *ways.Way) (outcome, error) {
	return c.timed(ctx, w, func(conn *pgconn.PgConn) error {
		var n counter
		_, err := conn.CopyTo(ctx, &n, fmt.Sprintf(
			"copy (select repeat('x', 999) from generate_series(1, %d)) to stdout",
			c.megabytes*linesOfMegabyte))
		if err == nil && int(n) != c.megabytes*1e6 {
			err = fmt.Errorf("%d bytes arrived", n)
		}
		return err
	})
}

// timed returns megabytes per second.
func (c copies) timed(
	ctx context.Context, w *ways.Way, do func(*pgconn.PgConn) error,
) (outcome, error) {
	conn, err := pgconn.Connect(ctx, w.PostgresURL(ways.Resource, 1))
	if err != nil {
		return outcome{}, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	start := time.Now()
	err = do(conn)
	size := float64(c.megabytes)
	return outcome{value: size / time.Since(start).Seconds(), operations: size}, err
}

// lines reads the same block again and again.
type lines struct {
	block []byte
	at    int
	left  int
}

func (l *lines) Read(p []byte) (n int, err error) {
	if l.left == 0 {
		return 0, io.EOF
	}
	n = copy(p[:min(len(p), l.left)], l.block[l.at:])
	l.at = (l.at + n) % len(l.block)
	l.left -= n
	return n, nil
}

// counter counts what is written to it.
type counter int

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
