package pgmarks

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// A prepared transaction has no backend, and survives a restart of the server.
func TestAPreparedTransactionThatHasEnteredKeepsTheNextLeaderOutAndIsNamed(t *testing.T) {
	t.Parallel()
	pg := serverstest.Postgres(t, servers.PostgresOptions{
		Settings: map[string]string{"max_prepared_transactions": "5"},
	})
	d := &realm{database: database{pg, "postgres"}}
	d.roles(t)
	d.sql(t, "create table entry (token bigint); grant all on entry to app")
	must.Succeed(t, Install(t.Context(), d.url("postgres"), guardRole))
	d.s = d.open(t, Options{AllowPrepared: true})

	if attached, err := Attach(t.Context(), d.connect(t, "app"), d.lead(t, d.next())); attached ||
		err != nil {
		t.Errorf("a session was attached, though its prepared transactions would survive it: %v",
			err)
	}
	for _, crash := range []bool{false, true} {
		old := d.lead(t, d.next())
		conn, _ := d.enters(t, old, at(pgx.RepeatableRead))
		execute(t, conn, "savepoint a")
		execute(t, conn, "insert into entry values (0)") // with a transaction id of its own
		execute(t, conn, "prepare transaction 'the one'")
		execute(t, conn, "begin")
		execute(t, conn, "insert into entry values (0)") // the backend does something else now
		if crash {
			d.restart(t)
		}
		newer := d.next()
		if err := takeOver(t.Context(), d.s, newer); !errors.Is(err, fence.ErrUnrevoked) ||
			!strings.Contains(err.Error(), `"the one"`) {
			t.Errorf("crash %v: got %v", crash, err)
		}
		d.outside(t, newer, fence.ErrNotRaised)
		if _, step := d.admitted(t, newer); step != marks.MustRevoke {
			t.Errorf("crash %v: a session while a transaction is prepared: step %v", crash, step)
		}
		if !crash {
			execute(t, conn, "commit") // the revocation has not ended this backend
		}
		d.sql(t, "rollback prepared 'the one'")
		d.lead(t, newer)
		d.enters(t, newer, at(pgx.RepeatableRead))
	}
}

// restart kills the server and starts it again.
func (d database) restart(t *testing.T) {
	t.Helper()
	must.Succeed(t, d.pg.Kill())
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	must.Succeed(t, d.pg.Start(ctx))
}
