package console

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/internal/guard/postgres/wire"
)

// Statement is one SHOW statement.
type Statement struct {
	Name    string   // in lower case
	Meaning string   // for SHOW HELP
	Columns []Column // none if it returns no rows
	Rows    func(ctx context.Context) (Rows, error)

	tag string // of its completion
}

// Column is a column of the rows of a statement.
type Column struct {
	Name string
	Type Type
}

// Rows are the result of a statement. The type of a column decides the Go type of its values; nil is
// NULL.
type Rows struct {
	Values [][]any
	Notice string // for the client, besides the rows; empty for none
}

const seeHelp = "SHOW HELP lists the statements"

// comment is a comment of SQL. A SHOW statement has no strings in which one could seem to begin.
var comment = regexp.MustCompile(`--[^\n]*|(?s:/\*.*?\*/)`)

// setup is what JDBC sends after each login. It has no effect here.
var setup = regexp.MustCompile(`(?i)^set (extra_float_digits|application_name) ?(=|to) ?('[^']*'|[0-9]+)$`)

var ignored = &Statement{
	Rows: func(context.Context) (Rows, error) { return Rows{}, nil }, tag: "SET",
}

// find returns the statement that a query consists of, and nil for an empty one.
func (s *Session) find(query string) (*Statement, error) {
	words := strings.Fields(comment.ReplaceAllString(query, " "))
	if n := len(words); n > 0 {
		words[n-1] = strings.TrimRight(words[n-1], ";")
	}
	text := strings.TrimSpace(strings.Join(words, " "))
	name, isShow := strings.CutPrefix(strings.ToLower(text), "show ")
	switch {
	case text == "":
		return nil, nil
	case setup.MatchString(text):
		return ignored, nil
	case !isShow:
		return nil, &wire.Error{
			Code: wire.NotSupported, Message: "this is the console of the guard, which runs only SHOW",
			Hint: seeHelp + "; to use the database, connect to it by its name and with a token",
		}
	}
	for i := range s.statements {
		if s.statements[i].Name == name {
			return &s.statements[i], nil
		}
	}
	return nil, &wire.Error{Code: wire.UndefinedObject, Message: "unknown: SHOW " + excerpt(name), Hint: seeHelp}
}

func excerpt(s string) string {
	const most = 60
	return strings.ToValidUTF8(s[:min(len(s), most)], "?")
}

// help is SHOW HELP.
func help(all []Statement) Statement {
	h := Statement{
		Name: "help", Meaning: "this list",
		Columns: []Column{{"statement", Text}, {"shows", Text}},
	}
	var rows Rows
	for _, s := range slices.Concat(all, []Statement{h}) {
		rows.Values = append(rows.Values, []any{"SHOW " + strings.ToUpper(s.Name), s.Meaning})
	}
	h.Rows = func(context.Context) (Rows, error) { return rows, nil }
	return h
}
