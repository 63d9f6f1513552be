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

	"github.com/ringfence/ringfence/internal/taskfile"
)

// sqlStep is the statements of one step.
type sqlStep struct {
	*taskRun
	sql     *taskfile.SQL
	at      taskfile.Position
	timeout time.Duration
}

// run is checkpoint.Synchronous's. All statements go to the server at once. When ctx ends, the driver has the server cancel
// what it is at, and closes the connection.
func (s sqlStep) run(ctx context.Context, tx pgx.Tx, state json.RawMessage) (json.RawMessage, error) {
	ctx, stop := limited(ctx, s.timeout)
	defer stop()
	before := s.before(state)
	results := tx.Conn().PgConn().Exec(ctx, before+s.sql.Text)
	last, err := readAll(results)
	if err != nil {
		return nil, explained(ctx, s.located(err, before))
	}
	if last.column != "state" {
		return state, nil
	}
	switch len(last.values) {
	case 0:
		return nil, errors.New("the last statement returns a column called state and no row; it has to be one row")
	case 1:
		return newState(last.values[0])
	}
	return nil, errors.New("the last statement returns a column called state and several rows; it has to be one row")
}

// before is what the statements find: settings that end with the transaction.
func (s sqlStep) before(state json.RawMessage) string {
	found := [][2]string{
		{"ringfence_task.state", string(state)},
		{"ringfence_task.name", string(s.key.Task)},
		{"ringfence_task.key", s.key.String()},
	}
	var calls []string
	for _, f := range found {
		calls = append(calls, fmt.Sprintf("pg_catalog.set_config(%s, %s, true)", literal(f[0]), literal(f[1])))
	}
	return "select " + strings.Join(calls, ", ") + ";\n"
}

// literal is a string constant that means the same whatever standard_conforming_strings is.
func literal(s string) string {
	return "E'" + strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(s) + "'"
}

// rows is what a statement returned: its only column, where it has only one.
type rows struct {
	column string
	values [][]byte // two at most
}

// readAll reads the results of all statements to their end, and keeps the last one's.
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
	_, _ = result.Close() // its error is the whole's, too
	return r
}

// located says where in the file the server has found an error.
func (s sqlStep) located(err error, before string) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return err
	}
	at := s.at
	if line := s.sql.LineAt(offset(s.sql.Text, int(pg.Position)-1-utf8.RuneCountInString(before))); pg.Position > 0 && line > 0 {
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

// offset is where in the text a character stands, in bytes.
func offset(text string, characters int) int {
	at := 0
	for range characters {
		_, size := utf8.DecodeRuneInString(text[at:])
		at += size
	}
	return at
}
