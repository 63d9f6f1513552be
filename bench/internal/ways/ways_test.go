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
