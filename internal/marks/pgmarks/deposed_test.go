package pgmarks

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/poll"
)

// occupations are what a transaction that has entered and written may be doing when its leader is
// deposed. After each, the client does not help to end the transaction. Each may return the error
// channel of a call that must fail.
var occupations = map[string]func(t *testing.T, d *realm, c *pgx.Conn) <-chan error{
	"idle in transaction": func(*testing.T, *realm, *pgx.Conn) <-chan error {
		return nil
	},
	"running a statement":                    runs("select pg_sleep(600)"),
	"computing":                              runs("do $$ begin loop end loop; end $$"),
	"waiting for a row":                      waitsForARow,
	"in COPY from a client":                  copies,
	"writing to a client that does not read": writesToNobody,
	"in an aborted savepoint": func(t *testing.T, _ *realm, c *pgx.Conn) <-chan error {
		execute(t, c, "savepoint a")
		_, _ = c.Exec(t.Context(), "select 1/0")
		return nil
	},
}

// runs runs a statement that must fail.
func runs(statement string) func(*testing.T, *realm, *pgx.Conn) <-chan error {
	return func(t *testing.T, d *realm, c *pgx.Conn) <-chan error {
		done := make(chan error, 1)
		go func() {
			_, err := c.Exec(context.WithoutCancel(t.Context()), statement)
			done <- err
		}()
		d.active(t, c)
		return done
	}
}

// active waits until the server executes something for a connection.
func (d database) active(t *testing.T, c *pgx.Conn) {
	t.Helper()
	d.until(t, "select (state = 'active')::text from pg_stat_activity where pid = $1",
		int64(c.PgConn().PID()))
}

// until waits until a query returns true.
func (d database) until(t *testing.T, query string, args ...any) {
	t.Helper()
	if !poll.Until(30*time.Second, func() bool {
		return slices.Equal(d.list(t, query, args...), []string{"true"})
	}) {
		t.Fatalf("%s did not become true", query)
	}
}

func waitsForARow(t *testing.T, d *realm, c *pgx.Conn) <-chan error {
	d.sql(t, "create table if not exists held as select 1 as n; grant all on held to app")
	holder := d.connect(t, "app")
	execute(t, holder, "begin")
	execute(t, holder, "update held set n = n")
	return runs("update held set n = n")(t, d, c)
}

func copies(t *testing.T, d *realm, c *pgx.Conn) <-chan error {
	done := make(chan error, 1)
	rows, client := io.Pipe()
	t.Cleanup(func() { _ = client.Close() })
	go func() {
		_, err := c.PgConn().CopyFrom(context.WithoutCancel(t.Context()), rows,
			"copy entry from stdin")
		_ = rows.Close() // or a writer would block forever
		done <- err
	}()
	d.active(t, c)
	return done
}

// writesToNobody makes the server send more than the socket buffers hold.
func writesToNobody(t *testing.T, d *realm, c *pgx.Conn) <-chan error {
	results := c.PgConn().Exec(t.Context(),
		"select repeat('x', 1000) from generate_series(1, 100000)")
	t.Cleanup(func() { _ = c.PgConn().Conn().Close(); _ = results.Close() })
	d.until(t,
		"select (coalesce(wait_event, '') = 'ClientWrite')::text from pg_stat_activity "+
			"where pid = $1", int64(c.PgConn().PID()))
	return nil
}

func TestNoTransactionOfADeposedLeaderIsCommitted(t *testing.T) {
	t.Parallel()
	d := led(t)
	for name, occupy := range occupations {
		t.Run(name, func(t *testing.T) {
			old := d.lead(t, d.next())
			c, tx := d.enters(t, old, pgx.TxOptions{})
			failed := occupy(t, d, c)
			d.lead(t, d.next())
			d.over(t, c.PgConn().PID(), old)
			if failed != nil {
				select {
				case err := <-failed:
					if err == nil {
						t.Error("the call succeeded")
					}
				case <-time.After(30 * time.Second):
					t.Fatal("the call has not ended")
				}
			} else if name != "writing to a client that does not read" {
				if err := tx.Commit(t.Context()); err == nil {
					t.Error("the transaction was committed")
				}
			}
			d.over(t, c.PgConn().PID(), old)
		})
	}
}

// over checks that a transaction has left no trace. The caller calls it when the revocation has
// returned, so it waits for nothing.
func (d database) over(t *testing.T, pid uint32, c fence.Claim) {
	t.Helper()
	const locks = `select count(*)::text from pg_locks
	    where pid = $1 and locktype <> 'virtualxid'`
	if n := d.list(t, locks, int64(pid))[0]; n != "0" {
		t.Errorf("the transaction still holds %s locks", n)
	}
	if n := d.landed(t, c); n != "0" {
		t.Errorf("%s of its writes are committed", n)
	}
}

// Only a superuser may end a superuser's backend.
func TestASuperusersTransactionKeepsTheNewLeaderOutAndIsNamed(t *testing.T) {
	t.Parallel()
	d := led(t)
	old, newer := d.lead(t, d.next()), d.next()
	tx := d.transact(t, d.connect(t, "postgres"), old, pgx.TxOptions{})
	if err := takeOver(t.Context(), d.s, newer); !errors.Is(err, fence.ErrUnrevoked) ||
		!strings.Contains(err.Error(), "role postgres") {
		t.Errorf("got %v", err)
	}
	d.outside(t, newer, fence.ErrNotRaised)
	must.Report(t, tx.Commit(t.Context()))
	d.lead(t, newer)
	d.enters(t, newer, pgx.TxOptions{})
}

func TestNoTransactionOfAPausedProcessIsCommittedWhenItResumes(t *testing.T) {
	t.Parallel()
	d := led(t)
	old := d.lead(t, d.next())
	psql := exec.CommandContext(t.Context(), "psql", "-qAtX", "-v", "ON_ERROR_STOP=1", d.url("app"))
	stdin, err := psql.StdinPipe()
	must.Succeed(t, err)
	stdout, err := psql.StdoutPipe()
	must.Succeed(t, err)
	var stderr strings.Builder
	psql.Stderr = &stderr
	must.Succeed(t, psql.Start())
	write(t, stdin, "begin; "+enterQuery(old)+
		"; insert into entry values (1) returning 'written';\n")
	for lines := bufio.NewScanner(stdout); lines.Scan() && lines.Text() != "written"; {
	}
	signal(t, psql, syscall.SIGSTOP)
	write(t, stdin, "commit;\n")
	d.lead(t, d.next())
	if n := d.holders(t); n != "0" {
		t.Error("a transaction is still inside after the revocation")
	}
	signal(t, psql, syscall.SIGCONT)
	_ = stdin.Close()
	refused := psql.Wait() // its last error may be lost when the connection is reset
	if n := d.landed(t, old); n != "0" || refused == nil {
		t.Errorf("%s of its writes are committed; psql printed %s", n, stderr.String())
	}
}

func write(t *testing.T, w io.Writer, text string) {
	t.Helper()
	_, err := io.WriteString(w, text)
	must.Succeed(t, err)
}

func signal(t *testing.T, c *exec.Cmd, s syscall.Signal) {
	t.Helper()
	must.Succeed(t, c.Process.Signal(s))
}
