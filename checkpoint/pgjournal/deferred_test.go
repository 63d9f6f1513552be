package pgjournal_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/pgjournal"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
)

// counted counts what is sent.
type counted struct {
	net.Conn
	sent *atomic.Int64
}

func (c counted) Write(b []byte) (int, error) {
	c.sent.Add(1)
	return c.Conn.Write(b)
}

func TestAStepSendsItsBeginWithItsFirstStatement(t *testing.T) {
	t.Parallel()
	d := installed(t)
	raise(t, d.journal(t, pgjournal.Options{}), 1)
	cfg, err := pgxpool.ParseConfig(d.url("app"))
	must.Succeed(t, err)
	var sent atomic.Int64
	cfg.MaxConns = 1
	dial := cfg.ConnConfig.DialFunc
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		return counted{conn, &sent}, err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	must.Succeed(t, err)
	defer pool.Close()
	j := pgjournal.New(pool, pgjournal.Options{})
	var until []int64 // what was sent until the end of each step's statement
	task := one(func(ctx context.Context, tx pgx.Tx, s count) (count, error) {
		if s.N++; s.N == 4 { // notices go over the same connection, and end here
			j.Close()
		}
		err := insert(ctx, tx, "x")
		until = append(until, sent.Load())
		return s, err
	})
	task.Rounds = 10
	_, err = lead(t, j, 1, task)
	must.Succeed(t, err)
	fewest := until[9] - until[8] // the pool may send something of its own
	for i := 6; i < 9; i++ {
		fewest = min(fewest, until[i]-until[i-1])
	}
	if fewest != 2 {
		t.Errorf("a step has sent something %d times, want 2", fewest)
	}
	if got := d.list(t, "select value from effect"); len(got) != 10 {
		t.Errorf("%d effects", len(got))
	}
}

// Whatever a step does first is in its transaction.
func TestTheFirstUseOfATransactionBeginsIt(t *testing.T) {
	t.Parallel()
	const add = "insert into effect (value) values ('x')"
	first := map[string]func(ctx context.Context, tx pgx.Tx) error{
		"exec": func(ctx context.Context, tx pgx.Tx) error { return insert(ctx, tx, "x") },
		"exec without arguments": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "select 1; "+add)
			return err
		},
		"exec in another mode": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "insert into effect (value) values ($1)",
				pgx.QueryExecModeSimpleProtocol, "x")
			return err
		},
		"exec with names": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "insert into effect (value) values (@value)",
				pgx.NamedArgs{"value": "x"})
			return err
		},
		"query": func(ctx context.Context, tx pgx.Tx) error {
			rows, err := tx.Query(ctx, add+" returning value")
			if err == nil {
				_, err = pgx.CollectRows(rows, pgx.RowTo[string])
			}
			return err
		},
		"query row": func(ctx context.Context, tx pgx.Tx) error {
			var value string
			return tx.QueryRow(ctx, add+" returning value").Scan(&value)
		},
		"batch": func(ctx context.Context, tx pgx.Tx) error {
			var b pgx.Batch
			b.Queue(add)
			return tx.SendBatch(ctx, &b).Close()
		},
		"copy": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.CopyFrom(ctx, pgx.Identifier{"effect"}, []string{"value"},
				pgx.CopyFromRows([][]any{{"x"}}))
			return err
		},
		"prepare": func(ctx context.Context, tx pgx.Tx) error {
			sd, err := tx.Prepare(ctx, "", add)
			if err == nil {
				_, err = tx.Exec(ctx, sd.SQL)
			}
			return err
		},
		"savepoint": func(ctx context.Context, tx pgx.Tx) error {
			return pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return insert(ctx, tx, "x") })
		},
		"connection": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Conn().Exec(ctx, add)
			return err
		},
		"large object": func(ctx context.Context, tx pgx.Tx) error {
			objects := tx.LargeObjects()
			_, err := objects.Create(ctx, 0)
			return errors.Join(err, insert(ctx, tx, "x"))
		},
		"nothing": func(context.Context, pgx.Tx) error { return nil },
	}
	for name, use := range first {
		t.Run(name, func(t *testing.T) {
			d := installed(t)
			task := one(func(ctx context.Context, tx pgx.Tx, s count) (count, error) {
				s.N++
				err := use(ctx, tx)
				if err == nil && s.N == 4 {
					err = errors.New("too late")
				}
				return s, err
			})
			task.Rounds = 5
			cp, err := lead(t, d.journal(t, pgjournal.Options{}), 1, task)
			if !errors.Is(err, checkpoint.ErrStopped) || cp.Failure.Message != "too late" {
				t.Fatalf("got %v", err)
			}
			want := 3
			if name == "nothing" {
				want = 0
			}
			if got := d.list(t, "select value from effect"); len(got) != want {
				t.Errorf("%d effects, want %d", len(got), want)
			}
		})
	}
}

// A step that ignores the error of its first statement leaves nothing, as with any statement.
func TestAFirstStatementThatFailsFailsTheTransaction(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]string{
		"when it runs":         "alter table effect add check (value <> 'bad')",
		"when it is prepared":  "alter table effect rename to other",
		"when it is converted": "alter table effect alter value type int using 1",
	} {
		t.Run(name, func(t *testing.T) {
			d := installed(t)
			task := one(func(ctx context.Context, tx pgx.Tx, s count) (count, error) {
				value := "good"
				if s.N++; s.N == 4 {
					d.exec(t, spoil)
					value = "bad"
				}
				if err := insert(ctx, tx, value); (err != nil) != (s.N == 4) {
					t.Errorf("round %d: %v", s.N, err)
				}
				return s, nil
			})
			task.Rounds = 5
			cp, err := lead(t, d.journal(t, pgjournal.Options{}), 1, task)
			if !errors.Is(err, checkpoint.ErrStopped) {
				t.Errorf("got %v", err)
			}
			if cp.Round != 4 {
				t.Errorf("stopped in round %d", cp.Round)
			}
		})
	}
}

// The session ends between two steps, and the step ignores that. It runs again, perhaps more than
// once: the pool may have another connection that was just being made.
func TestATransactionThatCannotBeginIsTriedAgain(t *testing.T) {
	t.Parallel()
	d := installed(t)
	runs := 0
	task := one(func(ctx context.Context, tx pgx.Tx, s count) (count, error) {
		s.N++
		if runs++; runs == 4 {
			d.list(t, servers.EndSessions("usename = 'app' and datname = current_database()"))
			_, _ = tx.Exec(ctx, "select 1")
			_, _ = tx.Exec(ctx, "insert into effect (value) values ('outside')")
			return s, nil
		}
		return s, insert(ctx, tx, "x")
	})
	task.Rounds = 5
	if _, err := lead(t, d.journal(t, pgjournal.Options{}), 1, task); err != nil || runs < 6 {
		t.Errorf("%d runs, %v", runs, err)
	}
	if got := d.list(t, "select value from effect"); strings.Join(got, "") != "xxxxx" {
		t.Errorf("effects %q", got)
	}
}
