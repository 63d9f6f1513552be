// Package pgcause says in one line why there is no connection to Postgres.
//
//	conn, err := pgx.ConnectConfig(ctx, cfg)
//	if err != nil {
//		return pgcause.Plain(err)
//	}
//
// pgx tries each address of a host, with TLS and without, and reports every attempt, so the cause
// stands behind attempts that had to fail. Undone says whether an answer leaves open what has
// become of a transaction.
package pgcause

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Plain shortens a failure to connect to its causes: each once, the last attempt's first. It wraps
// err, and returns other errors unchanged.
func Plain(err error) error {
	connect, ok := errors.AsType[*pgconn.ConnectError](err)
	if _, done := errors.AsType[*plain](err); !ok || done {
		return err
	}
	text := strings.Join(causes(connect.Unwrap()), "; ")
	return &plain{err, strings.Replace(err.Error(), connect.Error(), text, 1)}
}

type plain struct {
	err  error
	text string
}

func (p *plain) Error() string { return p.text }

// Unwrap returns the error of pgx.
func (p *plain) Unwrap() error { return p.err }

// NoTLS reports whether every attempt to connect has failed because the server has no TLS.
func NoTLS(err error) bool {
	connect, ok := errors.AsType[*pgconn.ConnectError](err)
	if !ok {
		return false
	}
	return !slices.ContainsFunc(attempts(connect.Unwrap()), func(err error) bool {
		return !noTLS(err)
	})
}

// noTLS knows the error by its text: pgx has no type for it.
func noTLS(err error) bool {
	return strings.HasSuffix(err.Error(), "server refused TLS connection")
}

// attempts returns the errors of all attempts to connect.
func attempts(err error) []error {
	for e := err; e != nil; e = errors.Unwrap(e) {
		if all, ok := e.(interface{ Unwrap() []error }); ok {
			return all.Unwrap()
		}
	}
	return []error{err}
}

func causes(err error) (all []string) {
	tried := attempts(err)
	// sslmode=prefer goes on without TLS, and the attempt after that says what is wrong.
	if others := slices.DeleteFunc(slices.Clone(tried), noTLS); len(others) > 0 {
		tried = others
	}
	for _, err := range slices.Backward(tried) {
		if text := cause(err); !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
}

// cause returns the text of one attempt, whose error begins with "address (host): ".
func cause(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	address, _, _ := strings.Cut(text, " (")
	_, said, _ := strings.Cut(text, "): ")
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Error() // it names the address
	}
	pg, answered := errors.AsType[*pgconn.PgError](err)
	switch {
	case answered:
		return address + ": " + pg.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return address + " did not answer in time"
	case said == "":
		return text // of the resolver, which names the host
	}
	return address + ": " + said
}
