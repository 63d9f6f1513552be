package pgguard

import "testing"

// The package documentation promises what an operator sees of the guard in Postgres.
func TestAnOperatorSeesOneStatementOfTheGuardInPostgres(t *testing.T) {
	t.Parallel()
	g := fenced(t)
	c := g.open(5)
	const session = "select count(*) from pg_stat_activity where usename = 'app' " +
		"and datname = current_database() and state = 'idle' and query ~ "
	g.until(session+"'^/[*] ringfence [A-Z2-7]{26} [*]/$'", 1)
	g.exec(c, "select 'mine'")
	g.until(session+"'^select ''mine''$'", 1)
	if n := g.count("select count(*) from pg_stat_activity " +
		"where application_name = 'ringfence' and datname = current_database()"); n == 0 {
		t.Error("the guard's own connections have another name")
	}
	if n := g.count("select count(*) from pg_namespace where nspname = 'ringfence'"); n != 1 {
		t.Errorf("%d schemas", n)
	}
}
