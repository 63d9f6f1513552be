package console

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/ringfence/ringfence/internal/guard/postgres/wire"
)

// portal is a statement that is prepared or being executed.
type portal struct {
	statement *Statement // nil for an empty one
	formats   []int16    // of its results
	begun     bool
	rows      [][]any // those that the client has not got yet
}

// Kinds of portals in the protocol.
const (
	prepared  = 'S'
	executing = 'P'
)

// maxHeld is how many of a kind a session holds. One that is executing may have all rows of a long list.
var maxHeld = map[byte]int{prepared: 100, executing: 10}

// extended answers a message of the extended query protocol.
func (s *Session) extended(ctx context.Context, message pgproto3.FrontendMessage) error {
	switch m := message.(type) {
	case *pgproto3.Parse:
		return s.parse(m)
	case *pgproto3.Bind:
		return s.bind(m)
	case *pgproto3.Describe:
		return s.describe(m)
	case *pgproto3.Execute:
		p, err := s.get(executing, m.Portal)
		if err != nil {
			return err
		}
		return s.execute(ctx, p, int(m.MaxRows))
	case *pgproto3.Close:
		delete(s.held[m.ObjectType], m.Name)
		return s.send(&pgproto3.CloseComplete{})
	}
	return &wire.Error{Code: wire.ProtocolViolation, Message: fmt.Sprintf("unexpected message %T", message)}
}

func (s *Session) parse(m *pgproto3.Parse) error {
	statement, err := s.find(m.Query)
	if err != nil {
		return err
	}
	if err := s.hold(prepared, m.Name, &portal{statement: statement}); err != nil {
		return err
	}
	return s.send(&pgproto3.ParseComplete{})
}

func (s *Session) bind(m *pgproto3.Bind) error {
	p, err := s.get(prepared, m.PreparedStatement)
	if err != nil {
		return err
	}
	if len(m.Parameters) > 0 {
		return &wire.Error{Code: wire.ProtocolViolation, Message: "SHOW has no parameters"}
	}
	if err := checkFormats(m.ResultFormatCodes, p.statement); err != nil {
		return err
	}
	// The message is only valid until the next one.
	bound := &portal{statement: p.statement, formats: slices.Clone(m.ResultFormatCodes)}
	if err := s.hold(executing, m.DestinationPortal, bound); err != nil {
		return err
	}
	return s.send(&pgproto3.BindComplete{})
}

func checkFormats(formats []int16, statement *Statement) error {
	if n := len(formats); n > 1 && (statement == nil || n != len(statement.Columns)) {
		return &wire.Error{Code: wire.ProtocolViolation, Message: fmt.Sprintf("%d formats of results", n)}
	}
	for _, f := range formats {
		if f != textFormat && f != binaryFormat {
			return &wire.Error{Code: wire.ProtocolViolation, Message: fmt.Sprintf("unknown format %d", f)}
		}
	}
	return nil
}

// describe describes a prepared statement or a portal.
func (s *Session) describe(m *pgproto3.Describe) error {
	p, err := s.get(m.ObjectType, m.Name)
	if err != nil {
		return err
	}
	if m.ObjectType == prepared {
		if err := s.send(&pgproto3.ParameterDescription{}); err != nil {
			return err
		}
	}
	if p.statement == nil || len(p.statement.Columns) == 0 {
		return s.send(&pgproto3.NoData{})
	}
	return s.send(describe(p.statement.Columns, p.formats))
}

// execute sends the rows of a portal: at most so many, or all if most is 0.
func (s *Session) execute(ctx context.Context, p *portal, most int) error {
	if p.statement == nil {
		return s.send(&pgproto3.EmptyQueryResponse{})
	}
	if !p.begun {
		p.begun = true
		rows, err := p.statement.Rows(ctx)
		if err != nil {
			return err
		}
		p.rows = rows.Values
		if err := s.sendNotice(rows.Notice); err != nil {
			return err
		}
	}
	for sent := 0; len(p.rows) > 0; sent++ {
		if most > 0 && sent == most {
			return s.send(&pgproto3.PortalSuspended{})
		}
		if err := s.send(dataRow(p.rows[0], p.formats)); err != nil {
			return err
		}
		p.rows = p.rows[1:]
	}
	return s.send(&pgproto3.CommandComplete{CommandTag: []byte(cmp.Or(p.statement.tag, "SHOW"))})
}

func (s *Session) get(kind byte, name string) (*portal, error) {
	p, ok := s.held[kind][name]
	switch {
	case ok:
		return p, nil
	case kind == prepared:
		return nil, &wire.Error{Code: wire.UndefinedStatement, Message: "no prepared statement " + excerpt(name)}
	}
	return nil, &wire.Error{Code: wire.UndefinedCursor, Message: "no portal " + excerpt(name)}
}

// hold keeps one more prepared statement or portal, unless there are too many.
func (s *Session) hold(kind byte, name string, p *portal) error {
	if len(s.held[kind]) >= maxHeld[kind] || len(name) > wire.MaxName {
		return &wire.Error{
			Code:    wire.ProgramLimitExceeded,
			Message: fmt.Sprintf("at most %d at a time, with names of %d bytes", maxHeld[kind], wire.MaxName),
		}
	}
	s.held[kind][name] = p
	return nil
}
