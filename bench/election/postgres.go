package election

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/test/servers"
)

const postgresNote = "one server, fsync on; requests are transactions, and the server counts one " +
	"also where it wakes a listening connection; notices are those to sessions"

// postgres holds elections in a database of their own, so that what the benchmark itself asks in
// another one does not count.
type postgres struct {
	*servers.Postgres
	conn   *pgx.Conn // to another database
	inside *pgx.Conn // to that of the elections
}

const database = "elections"

func startPostgres(ctx context.Context) (server, error) {
	pg, err := servers.StartPostgres(ctx, servers.PostgresOptions{Settings: map[string]string{
		"shared_buffers": "128MB", "max_connections": "1000",
	}})
	if err != nil {
		return nil, err
	}
	p := postgres{Postgres: pg}
	p.conn, err = pgx.Connect(ctx, pg.URL("postgres", "postgres"))
	if err == nil {
		_, err = p.conn.Exec(ctx, "create database "+database)
	}
	if err == nil {
		p.inside, err = pgx.Connect(ctx, p.URL("postgres", database))
	}
	if err != nil {
		_ = p.Close()
		return nil, err
	}
	return p, nil
}

func (p postgres) address() string { return p.Addr() }

func (p postgres) url(address string) string {
	return strings.Replace(p.URL("postgres", database), p.Addr(), address, 1)
}

func (p postgres) version(ctx context.Context) (version string, err error) {
	err = p.conn.QueryRow(ctx,
		"select 'Postgres ' || current_setting('server_version')").Scan(&version)
	version, _, _ = strings.Cut(version, " (")
	return version, err
}

func (p postgres) requests(ctx context.Context) (n int, err error) {
	err = p.conn.QueryRow(ctx, "select xact_commit + xact_rollback from pg_stat_database where "+
		"datname = $1",
		database).Scan(&n)
	return n, err
}

func (p postgres) state(ctx context.Context) (s state, err error) {
	err = p.conn.QueryRow(ctx, `select count(*) from pg_stat_activity
		where datname = $1 and backend_type = 'client backend'`, database).Scan(&s.connections)
	if err != nil {
		return s, err
	}
	// What is left of an expired session is deleted when somebody looks at it.
	err = p.inside.QueryRow(ctx, `select count(c.id), count(distinct s.id)
		from ringfence_private.lease s left join ringfence_private.candidate c on c.lease = s.id
		where s.expires_at > clock_timestamp()`).Scan(&s.candidates, &s.sessions)
	return s, err
}

// notices listens to the channels of all sessions.
func (p postgres) notices(ctx context.Context) (func() (int, error), error) {
	conn, err := pgx.Connect(ctx, p.URL("postgres", database))
	if err != nil {
		return nil, err
	}
	before, err := channels(ctx, p.inside)
	for channel := range before {
		if err == nil {
			_, err = conn.Exec(ctx, "listen "+pgx.Identifier{channel}.Sanitize())
		}
	}
	if err != nil {
		_ = conn.Close(context.WithoutCancel(ctx))
		return nil, err
	}
	heard := map[string]int{}
	listening, stop := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		for {
			n, err := conn.WaitForNotification(listening)
			if err != nil {
				return
			}
			heard[n.Channel]++
		}
	})
	return func() (n int, err error) {
		time.Sleep(50 * time.Millisecond) // for notices to arrive
		stop()
		done.Wait()
		_ = conn.Close(context.WithoutCancel(ctx))
		alive, err := channels(ctx, p.inside)
		for channel := range alive {
			n += heard[channel]
		}
		return n, err
	}, nil
}

// channels returns those of all sessions.
func channels(ctx context.Context, conn *pgx.Conn) (map[string]bool, error) {
	rows, err := conn.Query(ctx, "select 'ringfence_s_' || id from ringfence_private.lease")
	if err != nil {
		return nil, err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	all := map[string]bool{}
	for _, name := range names {
		all[name] = true
	}
	return all, err
}

func (p postgres) Close() error {
	for _, conn := range []*pgx.Conn{p.conn, p.inside} {
		if conn != nil {
			_ = conn.Close(context.Background())
		}
	}
	return p.Postgres.Close()
}
