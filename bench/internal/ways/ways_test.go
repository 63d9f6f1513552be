package ways

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestTheURLCarriesTheToken(t *testing.T) {
	c, err := pgx.ParseConfig(PostgresURL("127.0.0.1:5432", Resource, 7))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.RuntimeParams["options"]; got != "-c fence.orders=7" {
		t.Errorf("the options are %q", got)
	}
}

func TestTheEnvironmentIsInOrder(t *testing.T) {
	got := list(map[string]string{"B": "2", "A": "1"})
	if len(got) != 2 || got[0] != "A=1" || got[1] != "B=2" {
		t.Errorf("got %q", got)
	}
}

func TestDirectHasNoProxyWhoseTimeCounts(t *testing.T) {
	if _, ok := (&Way{Name: Direct}).CPU(); ok {
		t.Error("there is a CPU time")
	}
}

func TestVersions(t *testing.T) {
	for out, want := range map[string]string{
		"Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64": "Redis server v=7.0.15",
		"postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n": "postgres (PostgreSQL) " +
			"15.18",
		"PgBouncer 1.18.0\nlibevent 2.1.12-stable\n":             "PgBouncer 1.18.0",
		"This is nutcracker-0.5.0\nasync event backend: epoll\n": "nutcracker-0.5.0",
		"nothing\n1.2\n": "",
	} {
		if got := parseVersion(out); got != want {
			t.Errorf("%q: %q, want %q", out, got, want)
		}
	}
}
