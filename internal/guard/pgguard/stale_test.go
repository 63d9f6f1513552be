package pgguard

import (
	"io"
	"strings"
	"testing"
)

func TestAnIdleSessionIsEndedAndToldWhy(t *testing.T) {
	t.Parallel()
	g := fenced(t)
	old := g.open(5)
	g.exec(old, "insert into ledger (token) values (5)")
	fresh := g.open(7)
	_, err := old.Exec(t.Context(), "insert into ledger (token) values (5)")
	wantCode(t, err, "RF001")
	g.exec(fresh, "insert into ledger (token) values (7)")
	if n := g.count("select count(*) from ledger where token = 5"); n != 1 {
		t.Errorf("%d writes of the old leader, want only the first", n)
	}
}

func TestANewSessionUnderAStaleTokenIsRefused(t *testing.T) {
	t.Parallel()
	g := fenced(t)
	g.open(7)
	_, err := g.dial(5)
	wantCode(t, err, "RF001")
	for _, part := range []string{"5", "7", "orders"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the refusal does not name %s: %v", part, err)
		}
	}
}

func TestAnOpenTransactionIsRolledBackAndItsLocksAreReleased(t *testing.T) {
	t.Parallel()
	g := fenced(t)
	g.exec(g.open(4), "insert into ledger (token, note) values (4, 'row')")
	old := g.open(5)
	g.exec(old, "begin")
	g.exec(old, "update ledger set token = 5 where note = 'row'")
	fresh := g.open(7)
	g.exec(fresh, "update ledger set token = 7 where note = 'row'") // must not wait for a lock
	_, err := old.Exec(t.Context(), "commit")
	wantCode(t, err, "RF001")
	if n := g.count("select token from ledger"); n != 7 {
		t.Errorf("the row has token %d", n)
	}
}

func TestALongStatementDoesNotFinish(t *testing.T) {
	t.Parallel()
	g := fenced(t)
	old := g.open(5)
	result := make(chan error, 1)
	go func() {
		_, err := old.Exec(t.Context(), "insert into ledger (token) select 5 from pg_sleep(30)")
		result <- err
	}()
	g.until(sessionsWhere+"state = 'active' "+
		"and query like 'insert into ledger%pg_sleep%'", 1)
	g.open(7)
	wantCode(t, <-result, "RF001")
	if n := g.count("select count(*) from ledger"); n != 0 {
		t.Errorf("%d rows of a statement that was ended", n)
	}
}

func TestACopyDoesNotFinish(t *testing.T) {
	t.Parallel()
	g := fenced(t)
	old := g.open(5)
	rows, more := io.Pipe()
	result := make(chan error, 1)
	go func() {
		_, err := old.PgConn().CopyFrom(t.Context(), rows, "copy ledger (token) from stdin")
		_ = rows.CloseWithError(err)
		result <- err
	}()
	if _, err := more.Write([]byte("5\n5\n")); err != nil {
		t.Fatal(err)
	}
	g.until(sessionsWhere+"state = 'active' "+
		"and query like 'copy ledger%'", 1)
	g.open(7)
	_, _ = more.Write([]byte("5\n"))
	_ = more.Close()
	wantCode(t, <-result, "RF001")
	if n := g.count("select count(*) from ledger"); n != 0 {
		t.Errorf("%d rows of a copy that was ended", n)
	}
}
