package takeover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/bench/internal/report"
	"github.com/ringfence/ringfence/bench/internal/ways"
)

// postgres is a Postgres with two guards.
type postgres struct {
	*ways.Postgres
	guards [2]*ways.GuardProcess
}

func startPostgres(ctx context.Context, o report.Options) (_ database, err error) {
	p := &postgres{}
	p.Postgres, err = ways.StartPostgres(ctx, ways.Options{
		Guard: o.Guard, Settings: map[string]string{"max_connections": "1200"},
	})
	if err != nil {
		return nil, err
	}
	p.guards[0] = p.Guard
	p.guards[1], err = p.NewGuard(ctx, nil)
	if err == nil {
		err = p.AdmitDirectly(ctx, io.Discard)
	}
	if err == nil {
		err = p.Exec(ctx, "create table written (token bigint)", "grant all on written to "+ways.User)
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

type postgresSession struct{ *pgconn.PgConn }

func (s postgresSession) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = s.Close(ctx) // its server session may be gone already
}

func (p *postgres) open(
	ctx context.Context, guard int, token int64, writes bool,
) (session, error) {
	return open(ctx, ways.PostgresURL(p.guards[guard].Postgres, ways.Resource, token), token, writes)
}

func open(ctx context.Context, url string, token int64, writes bool) (session, error) {
	c, err := pgconn.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	s := postgresSession{c}
	if writes {
		sql := fmt.Sprintf("begin; insert into written values (%d)", token)
		if _, err := c.Exec(ctx, sql).ReadAll(); err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

func (p *postgres) login(ctx context.Context) (session, error) {
	c, err := pgconn.Connect(ctx, ways.PostgresURL(p.Server.Addr(), ways.Resource, 0))
	return postgresSession{c}, err
}

// check lets every older session write. None may succeed. Then it waits until the server has only
// the newcomer's session left: a guard keeps sessions at rest from writing at once, and their
// backends end a little later.
func (p *postgres) check(ctx context.Context, older []session) error {
	return check(ctx, p.Server.URL("postgres", "postgres"), older)
}

func check(ctx context.Context, url string, older []session) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, o := range older {
		const write = "insert into written values (0); commit"
		if _, err := o.(postgresSession).Exec(ctx, write).ReadAll(); err == nil {
			return errors.New("an older session has written after the take-over")
		}
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for {
		var sessions, rows int
		err := conn.QueryRow(ctx, `select (select count(*) from pg_stat_activity where usename = $1),
			(select count(*) from written)`, ways.User).Scan(&sessions, &rows)
		switch {
		case err != nil:
			return fmt.Errorf("after the take-over older sessions did not end: %w", err)
		case rows != 0:
			return fmt.Errorf("after the take-over there are %d rows of older sessions", rows)
		case sessions == 1:
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
}
