package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/ringfence/ringfence/internal/guard/postgres/wire"
)

// Session is the session of one client.
type Session struct {
	backend    *pgproto3.Backend
	buffered   int // messages that have not gone out
	statements []Statement

	// For extended queries:
	held   map[byte]map[string]*portal // by kind and name
	failed bool                        // there was an error, so everything is ignored until the next Sync
}

// maxMessage is the size in bytes of the longest message of a client.
const maxMessage = 1 << 16

// New returns a session that answers these statements, and SHOW HELP.
func New(r io.Reader, w io.Writer, statements []Statement) *Session {
	s := &Session{
		backend:    pgproto3.NewBackend(r, w),
		statements: slices.Concat(statements, []Statement{help(statements)}),
		held:       map[byte]map[string]*portal{prepared: {}, executing: {}},
	}
	s.backend.SetMaxBodyLen(maxMessage)
	return s
}

// Run answers until the client leaves, which is no error. ctx is for the statements: it does not
// interrupt a read or write. Run returns an error of the reader, the writer or the protocol.
func (s *Session) Run(ctx context.Context) error {
	for {
		message, err := s.backend.Receive()
		if err != nil {
			return err
		}
		if _, leaves := message.(*pgproto3.Terminate); leaves {
			return nil
		}
		if err := s.answer(ctx, message); err != nil {
			return err
		}
	}
}

// answer answers one message. It returns an error of the writer.
func (s *Session) answer(ctx context.Context, message pgproto3.FrontendMessage) error {
	switch m := message.(type) {
	case *pgproto3.Query:
		if err := s.query(ctx, m.String); err != nil {
			s.sendError(err)
		}
		return s.ready()
	case *pgproto3.FunctionCall:
		s.sendError(&wire.Error{Code: wire.NotSupported, Message: "there are no functions here", Hint: seeHelp})
		return s.ready()
	case *pgproto3.Sync:
		s.failed = false
		clear(s.held[executing]) // they last as long as the transaction
		return s.ready()
	case *pgproto3.Flush:
		return s.flush()
	case *pgproto3.CopyData, *pgproto3.CopyDone, *pgproto3.CopyFail:
		return nil // as Postgres does when there is no COPY
	}
	if s.failed {
		return nil
	}
	if err := s.extended(ctx, message); err != nil {
		s.failed = true
		s.sendError(err)
	}
	return nil
}

// query answers a simple query, which may consist of several statements.
func (s *Session) query(ctx context.Context, query string) error {
	empty := true
	for part := range strings.SplitSeq(comment.ReplaceAllString(query, " "), ";") {
		statement, err := s.find(part)
		if err != nil {
			return err
		}
		if statement == nil {
			continue
		}
		empty = false
		p := &portal{statement: statement}
		if len(statement.Columns) > 0 {
			if err := s.send(describe(statement.Columns, nil)); err != nil {
				return err
			}
		}
		if err := s.execute(ctx, p, 0); err != nil {
			return err
		}
	}
	if empty {
		return s.send(&pgproto3.EmptyQueryResponse{})
	}
	return nil
}

// ready ends an answer.
func (s *Session) ready() error {
	s.backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	return s.flush()
}

// maxBuffered is after how many messages they go out, so that no answer fills the memory.
const maxBuffered = 100

// send sends a message with the next flush. It returns an error of the writer.
func (s *Session) send(m pgproto3.BackendMessage) error {
	s.backend.Send(m)
	if s.buffered++; s.buffered < maxBuffered {
		return nil
	}
	return s.flush()
}

func (s *Session) flush() error {
	s.buffered = 0
	return s.backend.Flush()
}

func (s *Session) sendError(err error) {
	e := &wire.Error{Code: wire.SystemError, Message: fmt.Sprint(err)}
	errors.As(err, &e)
	s.backend.Send(wire.Response("ERROR", e))
}

func (s *Session) sendNotice(text string) error {
	if text == "" {
		return nil
	}
	return s.send(&pgproto3.NoticeResponse{
		Severity: "NOTICE", SeverityUnlocalized: "NOTICE", Code: "00000", Message: text,
	})
}
