package inject

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/ringfence/ringfence/fence"
)

// entryFunction writes an entry by a SELECT, as functions of applications do. A session without a
// token may call it, in a read-only transaction.
const entryFunction = `create or replace function entry(op text, token bigint) returns void
	language sql as $$ insert into ledger (op, token) values ($1, $2) $$`

// disguise prepares a COMMIT in a way that somebody who keeps a list of names does not notice, and
// has the name under which it is executed.
type disguise struct {
	prepare []pgproto3.FrontendMessage
	name    string
}

var disguises = []disguise{
	{ // the second Parse is skipped
		prepare: []pgproto3.FrontendMessage{
			&pgproto3.Parse{Query: "commit"}, &pgproto3.Bind{PreparedStatement: "no such statement"},
			&pgproto3.Parse{Query: "select 1"}, &pgproto3.Sync{},
		},
	},
	{ // two encodings
		prepare: []pgproto3.FrontendMessage{
			&pgproto3.Query{String: "set client_encoding = 'LATIN1'"},
			&pgproto3.Parse{Name: "\xe9", Query: "commit"}, &pgproto3.Sync{},
			&pgproto3.Query{String: "set client_encoding = 'UTF8'"},
		},
		name: "\u00e9",
	},
	{ // 63 bytes of a name count
		prepare: []pgproto3.FrontendMessage{
			&pgproto3.Parse{Name: strings.Repeat("a", 63) + "x", Query: "commit"}, &pgproto3.Sync{},
		},
		name: strings.Repeat("a", 63) + "y",
	},
}

// readAndWrite writes as the previous leader in sessions without a token, which may only read.
func (r *Injector) readAndWrite(ctx context.Context, c fence.Claim) error {
	if err := r.asSuperuser(ctx, entryFunction); err != nil {
		return err
	}
	var all error
	for _, d := range disguises {
		all = errors.Join(all, r.attempt("postgres", c, func(op string) error {
			return r.inDisguise(ctx, d, op, c)
		}))
	}
	return all
}

// inDisguise sends one batch that lifts the protection, ends the transaction and writes. It returns
// the first error of it.
func (r *Injector) inDisguise(ctx context.Context, d disguise, op string, c fence.Claim) error {
	to := r.sys.Addresses().Guards["guard-1"].Postgres
	if r.Unguarded {
		to = r.sys.Addresses().App
	}
	conn, err := pgx.Connect(ctx, to)
	if err != nil {
		return err
	}
	session, err := conn.PgConn().Hijack()
	if err != nil {
		return err
	}
	defer session.Conn.Close()
	unhook := context.AfterFunc(ctx, func() { session.Conn.Close() })
	defer unhook()
	for _, m := range d.prepare {
		if err := send(session.Frontend, m); ignored(err) != nil {
			return err
		}
	}
	write := fmt.Sprintf("select entry('%s', %d)", op, c.Token)
	return send(session.Frontend,
		&pgproto3.Parse{
			Name: "off", Query: "select set_config('default_transaction_read_only', 'off', false)",
		},
		&pgproto3.Bind{PreparedStatement: "off"}, &pgproto3.Execute{},
		&pgproto3.Bind{PreparedStatement: d.name}, &pgproto3.Execute{},
		&pgproto3.Parse{Name: "write", Query: write},
		&pgproto3.Bind{PreparedStatement: "write"}, &pgproto3.Execute{}, &pgproto3.Sync{})
}

// send sends messages and, if the last one has to be answered, returns the first error in the
// answers.
func send(to *pgproto3.Frontend, all ...pgproto3.FrontendMessage) error {
	for _, m := range all {
		to.Send(m)
	}
	if err := to.Flush(); err != nil {
		return err
	}
	switch all[len(all)-1].(type) {
	case *pgproto3.Sync, *pgproto3.Query:
		return answer(to)
	}
	return nil
}

// answer receives to the next ReadyForQuery, and returns the first error.
func answer(from *pgproto3.Frontend) (first error) {
	for {
		m, err := from.Receive()
		if err != nil {
			if first != nil {
				return first
			}
			return err
		}
		switch m := m.(type) {
		case *pgproto3.ErrorResponse:
			if first == nil {
				first = pgconn.ErrorResponseToPgError(m)
			}
		case *pgproto3.ReadyForQuery:
			return first
		}
	}
}

// ignored returns nil for an error of the database: a disguise may need one.
func ignored(err error) error {
	if _, ok := errors.AsType[*pgconn.PgError](err); ok {
		return nil
	}
	return err
}
