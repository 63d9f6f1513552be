package main

import (
	"net"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

func TestOnlyTheCheckAfterBeginIsLeftOut(t *testing.T) {
	const serializable = "begin isolation level serializable"
	for sent, want := range map[string]string{
		"begin\n; select ringfence.enter(E'bench', 5, E'unverified')": "begin",
		serializable + "; call ringfence.enter(E'a', 1, E'b')":        serializable,
		"begin":                                 "begin",
		"begin; select 1":                       "begin; select 1",
		"select ringfence.enter(E'a', 1, E'b')": "select ringfence.enter(E'a', 1, E'b')",
	} {
		if got := passed(t, sent); got != want {
			t.Errorf("%q became %q, want %q", sent, got, want)
		}
	}
}

// passed returns what a server receives of a simple query.
func passed(t *testing.T, sent string) string {
	t.Helper()
	client, server := net.Pipe()
	defer client.Close()
	defer server.Close()
	go func() {
		message, _ := (&pgproto3.Query{String: sent}).Encode(nil)
		_, _ = withoutEnter{client}.Write(message)
	}()
	received, err := pgproto3.NewBackend(server, nil).Receive()
	if err != nil {
		t.Fatal(err)
	}
	query, ok := received.(*pgproto3.Query)
	if !ok {
		t.Fatalf("the server receives %T", received)
	}
	return query.String
}

func TestARoundTripCountsOnceForSendingAndWaiting(t *testing.T) {
	client, server := net.Pipe()
	defer server.Close()
	n := &trips{}
	c := &counted{Conn: client, trips: n}
	defer c.Close()
	go func() {
		buffer := make([]byte, 8)
		for range 2 {
			_, _ = server.Read(buffer)
			_, _ = server.Read(buffer)
			_, _ = server.Write([]byte("x"))
		}
	}()
	for range 2 {
		_, _ = c.Write([]byte("a"))
		_, _ = c.Write([]byte("b"))
		_, _ = c.Read(make([]byte, 1))
	}
	if got := n.n.Load(); got != 2 {
		t.Errorf("counted %d round trips, want 2", got)
	}
}
