package postgres

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// encoded returns a database with an encoding.
func encoded(t *testing.T, encoding string) database {
	t.Helper()
	pg := serverstest.SharedPostgres(t)
	d := fresh(t)
	other := database{pg, d.name + "_encoded"}
	d.sql(t, "create database "+other.name+" template template0 encoding '"+encoding+"'")
	t.Cleanup(func() { d.sql(t, "drop database "+other.name+" with (force)") })
	return other
}

func TestACandidateHasTheNameOfItsHolderInEveryEncoding(t *testing.T) {
	t.Parallel()
	for encoding, holder := range map[string]string{
		"LATIN1": "büro-1", "EUC_JP": "日本", "EUC_KR": "日本", "SQL_ASCII": "büro ж",
	} {
		c := openWith(t, encoded(t, encoding).url(), 10*time.Second, nil)
		term, err := c.Campaign(t.Context(), "orders", holder)
		if err != nil {
			t.Fatalf("%s: %v", encoding, err)
		}
		_, leaders, err := c.Leaders(t.Context(), "orders")
		if err != nil || len(leaders) != 1 || leaders[0].Holder != holder {
			t.Errorf("%s: the leader of %s is %v, %v", encoding, term.Claim(), leaders, err)
		}
		var setup *fence.SetupError
		if _, err = c.Campaign(t.Context(), "more", "😀"); encoding != "SQL_ASCII" &&
			(!errors.As(err, &setup) || !strings.Contains(setup.Hint, "ASCII")) {
			t.Errorf("%s: a holder without characters there: %v", encoding, err)
		}
	}
}

func TestADatabaseWithoutItsTriggersHoldsNoElections(t *testing.T) {
	t.Parallel()
	d := fresh(t)
	must.Succeed(t, Install(t.Context(), d.url()))
	d.sql(t, "alter database "+d.name+" set session_replication_role = replica")
	_, err := Open(t.Context(), d.url(), Options{})
	var setup *fence.SetupError
	if !errors.As(err, &setup) || !strings.Contains(setup.What, "session_replication_role") {
		t.Errorf("got %v", err)
	}
}

func TestEveryTextIsInTheOrderOfItsBytes(t *testing.T) {
	t.Parallel()
	d := fresh(t)
	must.Succeed(t, Install(t.Context(), d.url()))
	const unordered = `select count(*) from pg_attribute a join pg_class c on c.oid = a.attrelid
	    where c.relnamespace = 'ringfence_private'::regnamespace and c.relkind in ('r', 'i')
	      and a.attcollation not in (0, 'pg_catalog."C"'::regcollation)`
	if n := d.number(t, unordered); n > 0 {
		t.Errorf("%d columns are in the order of the database", n)
	}
}
