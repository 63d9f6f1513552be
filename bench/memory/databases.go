package memory

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/bench/internal/report"
	"github.com/ringfence/ringfence/bench/internal/ways"
)

// database is one of the two databases, with a guard and other ways to it.
type database struct {
	name     string
	tls      bool // on every leg
	ways     []*ways.Way
	guard    *ways.GuardProcess
	newGuard func(ctx context.Context, settings map[string]string) (*ways.GuardProcess, error)
	open     opener
	addr     func(*ways.GuardProcess) string
	sql      func(ctx context.Context, statements ...string) error // nil for Redis
	// the guard's setting that names the upstream
	status string
	stage  io.Closer
}

// opener opens a session, behind a guard under a token of the resource.
type opener func(ctx context.Context, w *ways.Way, resource string, token int64) (io.Closer, error)

// through returns the way through a guard.
func (d *database) through(g *ways.GuardProcess) *ways.Way {
	return &ways.Way{Name: ways.Guard, Addr: d.addr(g), TLS: d.tls}
}

// start starts a database with room for so many sessions, and the peers if they are wanted.
type start func(ctx context.Context, s *settings, sessions int, peers bool,
	progress io.Writer) (*database, error)

var databases = []struct {
	name  string
	start start
}{{"postgres", startPostgres}, {"redis", startRedis}}

// spare connections are for the guard, and for those that look.
const spare = 120

func startPostgres(
	ctx context.Context, s *settings, sessions int, peers bool, progress io.Writer,
) (*database, error) {
	p, err := ways.StartPostgres(ctx, ways.Options{
		Guard: s.Guard, Peers: peers, TLS: s.tls, Progress: progress,
		Settings: map[string]string{
			"max_connections": strconv.Itoa(sessions + spare),
			// Ten thousand backends must fit into the memory: each maps these buffers, and the tables of
			// locks grow with the number of connections.
			"shared_buffers": "32MB", "max_locks_per_transaction": "10",
			"max_pred_locks_per_transaction": "10", "synchronous_commit": "off",
		},
	})
	if err != nil {
		return nil, err
	}
	return &database{
		name: "postgres", tls: s.tls, ways: p.Ways, guard: p.Guard, newGuard: p.NewGuard, stage: p,
		addr: func(g *ways.GuardProcess) string { return g.Postgres }, open: openPostgres,
		sql: p.Exec, status: "GUARD_POSTGRES_UPSTREAM=" + p.Server.URL("guard", "postgres"),
	}, nil
}

type postgresSession struct {
	*pgconn.PgConn
	ctx context.Context
}

func (s postgresSession) Close() error {
	return s.PgConn.Close(context.WithoutCancel(s.ctx))
}

func openPostgres(
	ctx context.Context, w *ways.Way, resource string, token int64,
) (io.Closer, error) {
	c, err := pgconn.Connect(ctx, w.PostgresURL(resource, token))
	if err != nil {
		return nil, err
	}
	return postgresSession{c, ctx}, nil
}

func startRedis(
	ctx context.Context, s *settings, sessions int, peers bool, progress io.Writer,
) (*database, error) {
	r, err := ways.StartRedis(ctx, ways.Options{
		Guard: s.Guard, Peers: peers, TLS: s.tls, Progress: progress,
		Redis: []string{"--maxclients", strconv.Itoa(sessions + spare)},
	})
	if err != nil {
		return nil, err
	}
	return &database{
		name: "redis", tls: s.tls, ways: r.Ways, guard: r.Guard, newGuard: r.NewGuard, stage: r,
		addr: func(g *ways.GuardProcess) string { return g.Redis }, open: openRedis,
		status: "GUARD_REDIS_UPSTREAM=" + r.Server.URL(),
	}, nil
}

// openRedis asks for a reply on any way: a guard's connection without an answer is no login.
func openRedis(
	ctx context.Context, w *ways.Way, resource string, token int64,
) (io.Closer, error) {
	conn, err := w.DialRedis(ctx, resource, token)
	if err != nil {
		return nil, err
	}
	if w.Name == ways.Guard {
		return conn, nil // it has answered the claim
	}
	reply := make([]byte, len("$-1\r\n")) // there is no such key
	_, err = io.WriteString(conn, "*2\r\n$3\r\nGET\r\n$7\r\nnothing\r\n")
	if err == nil {
		_, err = io.ReadFull(conn, reply)
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("GET: %w", err)
	}
	return conn, nil
}

// wantsAny reports whether one of the rows was chosen.
func wantsAny(o report.Options, names ...string) bool {
	for _, name := range names {
		if o.Wants(name) {
			return true
		}
	}
	return false
}
