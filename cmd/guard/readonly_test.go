package main

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/program/cli"
)

func TestReadersNeedNoTokenIfTheSettingSaysSo(t *testing.T) {
	pg, env := fresh(t)
	execute(t, pg.URL("postgres", "postgres"), "create table entry (token bigint); grant all on entry to app")
	if code, _, errs := invoke(t, env, "install"); code != cli.Done {
		t.Fatal(errs)
	}
	refusing := serving(t, env...)
	refusing.ready(200)
	_, err := pgx.Connect(t.Context(), "postgres://app@"+refusing.pg+"/postgres")
	wantCode(t, err, "RF002")

	r := serving(t, append(env, "GUARD_UNFENCED=read-only")...)
	r.ready(200)
	c, err := pgx.Connect(t.Context(), "postgres://app@"+r.pg+"/postgres")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	var n int
	if err := c.QueryRow(t.Context(), "select count(*) from entry where token > $1", 0).Scan(&n); err != nil || n != 0 {
		t.Errorf("a query: %d, %v", n, err)
	}
	_, err = c.Exec(t.Context(), "insert into entry values (1)")
	wantCode(t, err, "RF002")
	leader, err := r.connect(1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := leader.Exec(t.Context(), "insert into entry values (1)"); err != nil {
		t.Error(err)
	}
	if err := c.QueryRow(t.Context(), "select count(*) from entry").Scan(&n); err != nil || n != 1 {
		t.Errorf("afterwards: %d, %v", n, err)
	}
}
