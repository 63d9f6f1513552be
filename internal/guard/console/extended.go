package console

import (
	"cmp"
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgproto3"
)

// portal is a statement that is being executed.
type portal struct {
	statement *Statement // nil for an empty one
	formats   []int16
	begun     bool
	rows      [][]any // those that the client has not got yet
}

// heldMost bounds the prepared statements of a session, and its portals.
const heldMost = 100

// nameMost is the most bytes of the name of a prepared statement or portal (NAMEDATALEN - 1).
const nameMost = 63

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
		p, err := s.portal(m.Portal)
		if err != nil {
			return err
		}
		return s.execute(ctx, p, int(m.MaxRows))
	case *pgproto3.Close:
		if m.ObjectType == 'S' {
			delete(s.prepared, m.Name)
		} else {
			delete(s.portals, m.Name)
		}
		s.backend.Send(&pgproto3.CloseComplete{})
		return nil
	}
	return &Error{Code: protocolViolation, Message: fmt.Sprintf("unexpected message %T", message)}
}

func (s *Session) parse(m *pgproto3.Parse) error {
	statement, err := s.find(m.Query)
	if err != nil {
		return err
	}
	if err := roomFor(m.Name, len(s.prepared)); err != nil {
		return err
	}
	s.prepared[m.Name] = statement
	s.backend.Send(&pgproto3.ParseComplete{})
	return nil
}

func (s *Session) bind(m *pgproto3.Bind) error {
	statement, err := s.preparedAs(m.PreparedStatement)
	if err != nil {
		return err
	}
	if err := roomFor(m.DestinationPortal, len(s.portals)); err != nil {
		return err
	}
	if len(m.Parameters) > 0 {
		return &Error{Code: protocolViolation, Message: "SHOW has no parameters"}
	}
	if err := checkFormats(m.ResultFormatCodes, statement); err != nil {
		return err
	}
	// The message is only valid until the next one.
	formats := append([]int16(nil), m.ResultFormatCodes...)
	s.portals[m.DestinationPortal] = &portal{statement: statement, formats: formats}
	s.backend.Send(&pgproto3.BindComplete{})
	return nil
}

func checkFormats(formats []int16, statement *Statement) error {
	if n := len(formats); n > 1 && (statement == nil || n != len(statement.Columns)) {
		return &Error{Code: protocolViolation, Message: fmt.Sprintf("%d formats of results", n)}
	}
	for _, f := range formats {
		if f != textFormat && f != binaryFormat {
			return &Error{Code: protocolViolation, Message: fmt.Sprintf("unknown format %d", f)}
		}
	}
	return nil
}

// describe describes a prepared statement or a portal.
func (s *Session) describe(m *pgproto3.Describe) error {
	var statement *Statement
	var formats []int16
	if m.ObjectType == 'S' {
		var err error
		if statement, err = s.preparedAs(m.Name); err != nil {
			return err
		}
		s.backend.Send(&pgproto3.ParameterDescription{})
	} else {
		p, err := s.portal(m.Name)
		if err != nil {
			return err
		}
		statement, formats = p.statement, p.formats
	}
	if statement == nil || len(statement.Columns) == 0 {
		s.backend.Send(&pgproto3.NoData{})
		return nil
	}
	s.backend.Send(describe(statement.Columns, formats))
	return nil
}

// execute sends the rows of a portal: at most so many, or all if most is 0.
func (s *Session) execute(ctx context.Context, p *portal, most int) error {
	if p.statement == nil {
		s.backend.Send(&pgproto3.EmptyQueryResponse{})
		return nil
	}
	if !p.begun {
		p.begun = true
		rows, err := p.statement.Rows(ctx)
		if err != nil {
			return err
		}
		p.rows = rows.Values
		if rows.Notice != "" {
			s.sendNotice(rows.Notice)
		}
	}
	for sent := 0; len(p.rows) > 0; sent++ {
		if most > 0 && sent == most {
			s.backend.Send(&pgproto3.PortalSuspended{})
			return nil
		}
		s.backend.Send(dataRow(p.rows[0], p.formats))
		p.rows = p.rows[1:]
		if sent%flushRows == flushRows-1 {
			if err := s.backend.Flush(); err != nil {
				return err
			}
		}
	}
	s.backend.Send(&pgproto3.CommandComplete{CommandTag: []byte(cmp.Or(p.statement.tag, "SHOW"))})
	return nil
}

// flushRows is after how many rows they go out, so that a long list does not fill the memory.
const flushRows = 500

func (s *Session) preparedAs(name string) (*Statement, error) {
	statement, ok := s.prepared[name]
	if !ok {
		return nil, &Error{
			Code: undefinedStatement, Message: "no prepared statement " + excerpt(name),
		}
	}
	return statement, nil
}

func (s *Session) portal(name string) (*portal, error) {
	p, ok := s.portals[name]
	if !ok {
		return nil, &Error{Code: undefinedCursor, Message: "no portal " + excerpt(name)}
	}
	return p, nil
}

// roomFor refuses one more prepared statement or portal if there are too many.
func roomFor(name string, held int) error {
	if held >= heldMost || len(name) > nameMost {
		return &Error{
			Code:    programLimitExceeded,
			Message: fmt.Sprintf("at most %d at a time, with names of %d bytes", heldMost, nameMost),
		}
	}
	return nil
}
