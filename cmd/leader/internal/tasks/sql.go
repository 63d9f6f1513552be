package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/cmd/leader/internal/taskfile"
)

// sqlStep holds the statements of one step.
type sqlStep struct {
	*taskRun
	sql     *taskfile.SQL
	at      taskfile.Position
	timeout time.Duration
}

// run is the step's function, see checkpoint.Synchronous. It sends all statements at once. When ctx
// ends, the driver makes the server cancel the current statement, and closes the connection.
func (s sqlStep) run(
	ctx context.Context, tx pgx.Tx, state json.RawMessage,
) (json.RawMessage, error) {
	ctx, stop := withTimeout(ctx, s.timeout)
	defer stop()
	setup := s.setup(state)
	results := tx.Conn().PgConn().Exec(ctx, setup+s.sql.Text)
	last, err := readAll(results)
	if err != nil {
		return nil, withCause(ctx, s.located(err, setup))
	}
	if last.column != "state" {
		return state, nil
	}
	switch len(last.values) {
	case 0:
		return nil, errors.New("the last statement returns a column called state and no row; " +
			"it has to return one row")
	case 1:
		return newState(last.values[0])
	}
	return nil, errors.New("the last statement returns a column called state and several rows; " +
		"it has to return one row")
}

// setup returns a statement that makes state, name and key available as settings, until the end of
// the transaction.
func (s sqlStep) setup(state json.RawMessage) string {
	values := [][2]string{
		{"ringfence_task.state", string(state)},
		{"ringfence_task.name", string(s.key.Task)},
		{"ringfence_task.key", s.key.String()},
	}
	var calls []string
	for _, v := range values {
		calls = append(calls,
			fmt.Sprintf("pg_catalog.set_config(%s, %s, true)", literal(v[0]), literal(v[1])))
	}
	return "select " + strings.Join(calls, ", ") + ";\n"
}

// literal returns a string constant that does not depend on standard_conforming_strings.
func literal(s string) string {
	return "E'" + strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(s) + "'"
}

// rows is the result of a statement, if that has exactly one column.
type rows struct {
	column string
	values [][]byte // at most two
}

// readAll reads the results of all statements, and keeps the last one.
func readAll(results *pgconn.MultiResultReader) (last rows, err error) {
	for results.NextResult() {
		last = readOne(results.ResultReader())
	}
	return last, results.Close()
}

func readOne(result *pgconn.ResultReader) (r rows) {
	columns := result.FieldDescriptions()
	if len(columns) == 1 {
		r.column = columns[0].Name
	}
	for result.NextRow() {
		if len(columns) == 1 && len(r.values) < 2 {
			r.values = append(r.values, append([]byte(nil), result.Values()[0]...))
		}
	}
	_, _ = result.Close() // results.Close returns the same error
	return r
}

// located adds to a server's error its position in the file.
func (s sqlStep) located(err error, setup string) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return err
	}
	at := s.at
	characters := int(pg.Position) - 1 - utf8.RuneCountInString(setup)
	if line := s.sql.LineAt(offset(s.sql.Text, characters)); pg.Position > 0 && line > 0 {
		at = taskfile.Position{File: s.sql.File, Line: line}
	}
	more := ""
	for _, part := range []string{pg.Detail, pg.Hint} {
		if part != "" {
			more += "; " + part
		}
	}
	return fmt.Errorf("%s: %w%s", at, err, more)
}

// offset converts a number of characters in text to bytes.
func offset(text string, characters int) int {
	at := 0
	for range characters {
		_, size := utf8.DecodeRuneInString(text[at:])
		at += size
	}
	return at
}
