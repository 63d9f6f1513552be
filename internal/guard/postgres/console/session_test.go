package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// client is a client of a session that has one statement, SHOW NUMBERS, with the rows 1, 2, 3.
type client struct {
	t *testing.T
	*pgproto3.Frontend
	ended chan error
}

func connected(t *testing.T) *client {
	t.Helper()
	here, there := net.Pipe()
	_ = here.SetDeadline(time.Now().Add(30 * time.Second))
	numbers := Statement{
		Name: "numbers", Meaning: "numbers", Columns: []Column{{"n", Integer}, {"even", Bool}},
		Rows: func(context.Context) (Rows, error) {
			return Rows{
				Values: [][]any{{int64(1), false}, {int64(2), true}, {nil, false}}, Notice: "three",
			}, nil
		},
	}
	broken := Statement{
		Name: "broken", Meaning: "an error", Columns: []Column{{"n", Integer}},
		Rows: func(context.Context) (Rows, error) { return Rows{}, errors.New("the store is down") },
	}
	c := &client{t, pgproto3.NewFrontend(here, here), make(chan error, 1)}
	go func() {
		c.ended <- New(there, there, []Statement{numbers, broken}).Run(context.Background())
		_ = there.Close()
	}()
	t.Cleanup(func() {
		_ = here.Close()
		<-c.ended
	})
	return c
}

// say sends messages, and returns the answers up to ReadyForQuery, in short.
func (c *client) say(messages ...pgproto3.FrontendMessage) string {
	c.t.Helper()
	sent := make(chan error, 1)
	go func() {
		for _, m := range messages {
			c.Send(m)
		}
		sent <- c.Flush()
	}()
	defer func() {
		if err := <-sent; err != nil {
			c.t.Error(err)
		}
	}()
	var answers []string
	for {
		m, err := c.Receive()
		if err != nil {
			c.t.Fatalf("after %q: %v", answers, err)
		}
		if _, over := m.(*pgproto3.ReadyForQuery); over {
			return strings.Join(answers, " ")
		}
		answers = append(answers, short(m))
	}
}

func short(m pgproto3.BackendMessage) string {
	switch m := m.(type) {
	case *pgproto3.DataRow:
		return fmt.Sprintf("%q", m.Values)
	case *pgproto3.ErrorResponse:
		return m.Code
	case *pgproto3.NoticeResponse:
		return m.Message
	case *pgproto3.CommandComplete:
		return string(m.CommandTag)
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", m), "*pgproto3.")
}

const allRows = `three ["1" "f"] ["2" "t"] ["" "f"] SHOW`

func TestSimpleQueries(t *testing.T) {
	c := connected(t)
	for query, want := range map[string]string{
		"show numbers":                         "RowDescription " + allRows,
		" SHOW\n Numbers ; ":                   "RowDescription " + allRows,
		"/* ; */ show numbers -- all; of them": "RowDescription " + allRows,
		"show numbers; show numbers":           "RowDescription " + allRows + " RowDescription " + allRows,
		"":                                     "EmptyQueryResponse",
		"-- ping":                              "EmptyQueryResponse",
		";;":                                   "EmptyQueryResponse",
		"show numbers; delete from t":          "RowDescription " + allRows + " 0A000",
		"delete from t; show numbers":          "0A000",
		"show":                                 "0A000",
		"show everything":                      "42704",
		"show broken":                          "RowDescription 58000",
		"begin":                                "0A000",
		"set a = 1":                            "0A000",
		"SET extra_float_digits = 3":           "SET",
		"SET application_name = 'a driver'":    "SET",
		"set application_name = 'a' || 'b'":    "0A000",
		"set extra_float_digits = 3, a = 1":    "0A000",
		"select 'show numbers'":                "0A000",
		"show numbers from t":                  "42704",
	} {
		if got := c.say(&pgproto3.Query{String: query}); got != want {
			t.Errorf("%q: got %s, want %s", query, got, want)
		}
	}
	got := c.say(&pgproto3.Query{String: "show help"})
	if !strings.Contains(got, `["SHOW NUMBERS" "numbers"]`) || !strings.Contains(got, "SHOW HELP") {
		t.Errorf("help: %s", got)
	}
}

func TestExtendedQueries(t *testing.T) {
	parse := &pgproto3.Parse{Name: "p", Query: "show numbers"}
	bind := &pgproto3.Bind{PreparedStatement: "p"}
	execute, sync := &pgproto3.Execute{}, &pgproto3.Sync{}
	for name, test := range map[string]struct {
		messages []pgproto3.FrontendMessage
		want     string
	}{
		"all": {
			[]pgproto3.FrontendMessage{parse, &pgproto3.Describe{ObjectType: 'S', Name: "p"}, bind,
				&pgproto3.Describe{ObjectType: 'P'}, execute, sync},
			"ParseComplete ParameterDescription RowDescription BindComplete RowDescription " + allRows,
		},
		"in binary": {
			[]pgproto3.FrontendMessage{parse,
				&pgproto3.Bind{PreparedStatement: "p", ResultFormatCodes: []int16{1}}, execute, sync},
			`ParseComplete BindComplete three ["\x00\x00\x00\x00\x00\x00\x00\x01" "\x00"] ` +
				`["\x00\x00\x00\x00\x00\x00\x00\x02" "\x01"] ["" "\x00"] SHOW`,
		},
		"in parts": {
			[]pgproto3.FrontendMessage{parse, bind, &pgproto3.Execute{MaxRows: 2}, execute, sync},
			`ParseComplete BindComplete three ["1" "f"] ["2" "t"] PortalSuspended ["" "f"] SHOW`,
		},
		"after an error everything is ignored until Sync": {
			[]pgproto3.FrontendMessage{&pgproto3.Parse{Query: "delete from t"}, parse, bind, execute, sync},
			"0A000",
		},
		"empty": {
			[]pgproto3.FrontendMessage{&pgproto3.Parse{Name: "e"}, &pgproto3.Bind{PreparedStatement: "e"},
				&pgproto3.Describe{ObjectType: 'P'}, execute, sync},
			"ParseComplete BindComplete NoData EmptyQueryResponse",
		},
		"what JDBC sets": {
			[]pgproto3.FrontendMessage{&pgproto3.Parse{Query: "SET extra_float_digits = 3"}, &pgproto3.Bind{},
				&pgproto3.Describe{ObjectType: 'P'}, &pgproto3.Execute{MaxRows: 1}, sync},
			"ParseComplete BindComplete NoData SET",
		},
		"a closed statement": {
			[]pgproto3.FrontendMessage{parse, &pgproto3.Close{ObjectType: 'S', Name: "p"}, bind, sync},
			"ParseComplete CloseComplete 26000",
		},
		"parameters":    {[]pgproto3.FrontendMessage{parse, &pgproto3.Bind{PreparedStatement: "p", Parameters: [][]byte{{'1'}}}, sync}, "ParseComplete 08P01"},
		"three formats": {[]pgproto3.FrontendMessage{parse, &pgproto3.Bind{PreparedStatement: "p", ResultFormatCodes: []int16{0, 0, 0}}, sync}, "ParseComplete 08P01"},
		"format 2":      {[]pgproto3.FrontendMessage{parse, &pgproto3.Bind{PreparedStatement: "p", ResultFormatCodes: []int16{2}}, sync}, "ParseComplete 08P01"},
		"no portal":     {[]pgproto3.FrontendMessage{&pgproto3.Execute{Portal: "x"}, sync}, "34000"},
		"a function":    {[]pgproto3.FrontendMessage{&pgproto3.FunctionCall{}}, "0A000"},
		"a long name":   {[]pgproto3.FrontendMessage{&pgproto3.Parse{Name: strings.Repeat("n", 64)}, sync}, "54000"},
	} {
		if got := connected(t).say(test.messages...); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}

func TestAPortalLastsUntilSync(t *testing.T) {
	c := connected(t)
	c.say(&pgproto3.Parse{Query: "show numbers"}, &pgproto3.Bind{}, &pgproto3.Sync{})
	if got := c.say(&pgproto3.Execute{}, &pgproto3.Sync{}); got != "34000" {
		t.Errorf("got %s", got)
	}
}

func TestAClientCannotFillTheMemoryWithStatements(t *testing.T) {
	c := connected(t)
	var all []pgproto3.FrontendMessage
	for i := range maxHeld[prepared] + 1 {
		all = append(all, &pgproto3.Parse{Name: fmt.Sprint(i), Query: "show numbers"})
	}
	got := c.say(append(all, &pgproto3.Sync{})...)
	if strings.Count(got, "ParseComplete") != maxHeld[prepared] || !strings.HasSuffix(got, " 54000") {
		t.Errorf("got %s", got)
	}
}

// largest is a writer that remembers its longest write.
type largest int

func (l *largest) Write(b []byte) (int, error) {
	*l = max(*l, largest(len(b)))
	return len(b), nil
}

// Many statements in one message, or in a pipeline without a Sync, are answered in pieces.
func TestNoAnswerFillsTheMemory(t *testing.T) {
	rows := Rows{Values: slices.Repeat([][]any{{strings.Repeat("x", 100)}}, 90)}
	show := Statement{Name: "m", Columns: []Column{{"a", Text}}, Rows: func(context.Context) (Rows, error) { return rows, nil }}
	simple, _ := (&pgproto3.Query{String: strings.Repeat("show m;", 1000)}).Encode(nil)
	pipeline, _ := (&pgproto3.Parse{Query: "show m"}).Encode(nil)
	for range 1000 {
		pipeline, _ = (&pgproto3.Bind{}).Encode(pipeline)
		pipeline, _ = (&pgproto3.Execute{}).Encode(pipeline)
	}
	for name, sent := range map[string][]byte{"in one message": simple, "in a pipeline": pipeline} {
		var longest largest
		_ = New(bytes.NewReader(sent), &longest, []Statement{show}).Run(t.Context())
		if longest == 0 || longest > 100_000 {
			t.Errorf("%s: a write of %d bytes", name, longest)
		}
	}
}

func TestTimes(t *testing.T) {
	at := time.Date(2026, 11, 22, 23, 59, 58, 7000, time.FixedZone("", 3600))
	if got := string(encode(at, textFormat)); got != "2026-11-22 22:59:58.000007+00" {
		t.Errorf("got %s", got)
	}
	if got := encode(time.Date(2000, 1, 1, 0, 0, 1, 0, time.UTC), binaryFormat); string(got) !=
		"\x00\x00\x00\x00\x00\x0f\x42\x40" {
		t.Errorf("got %x", got)
	}
	if encode(time.Time{}, textFormat) != nil || encode("", textFormat) == nil {
		t.Error("a zero time is NULL, and an empty string is not")
	}
}

func TestRunReturnsWhenTheClientLeaves(t *testing.T) {
	c := connected(t)
	c.Send(&pgproto3.Terminate{})
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	err := <-c.ended
	c.ended <- nil
	if err != nil {
		t.Error(err)
	}
}
