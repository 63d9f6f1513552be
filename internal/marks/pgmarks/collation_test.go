package pgmarks

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// sortedDatabase returns a database in which "aa" comes before "z", until its server has SortAnew.
func sortedDatabase(t *testing.T) database {
	t.Helper()
	pg := serverstest.Postgres(t, servers.PostgresOptions{OwnLocale: true})
	d := database{pg, "postgres"}
	d.sql(t, fmt.Sprintf("create database sorted template template0 lc_collate '%s' lc_ctype '%[1]s'",
		servers.OwnLocale))
	d.name = "sorted"
	d.roles(t)
	return d
}

func (d database) sortAnew(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must.Succeed(t, d.pg.SortAnew(ctx))
}

// moved are names of resources that the two locales sort differently.
func moved() (all []fence.Resource) {
	for n := range 30 {
		all = append(all, fence.Resource(fmt.Sprintf("aa%d", n)), fence.Resource(fmt.Sprintf("z%d", n)))
	}
	return all
}

func TestAMarkIsFoundAfterTheOrderOfTextsHasChanged(t *testing.T) {
	t.Parallel()
	d := sortedDatabase(t)
	must.Succeed(t, Install(t.Context(), d.url("postgres"), guardRole))
	s := d.open(t, Options{})
	for _, r := range moved() {
		if _, err := raiseTo(t.Context(), s, fence.Claim{
			Resource: r, Token: 100, Issuer: "zk:a", Holder: "a",
		}); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	d.sortAnew(t)

	s = d.open(t, Options{})
	for _, r := range moved() {
		found, err := s.Marks(t.Context(), r)
		if err != nil || len(found) != 1 || found[0].Token != 100 {
			t.Fatalf("the mark of %s: %v, %v", r, found, err)
		}
		if _, err := raiseTo(t.Context(), s, fence.Claim{
			Resource: r, Token: 50, Issuer: "zk:a", Holder: "b",
		}); err == nil {
			t.Fatalf("%s: a token of 50 was accepted after 100", r)
		}
	}
}

// unordered lists the columns whose order may change.
const unordered = `select a.attrelid::regclass || '.' || a.attname
  from pg_attribute a join pg_class c on c.oid = a.attrelid
 where c.relnamespace in (to_regnamespace('ringfence'), to_regnamespace('ringfence_private')) and c.relkind in ('r', 'i')
   and a.attcollation not in (0, 'pg_catalog."C"'::regcollation)`

func TestEveryTextIsInTheOrderOfItsBytes(t *testing.T) {
	t.Parallel()
	d := installed(t)
	if found := d.list(t, unordered); len(found) > 0 {
		t.Errorf("in the order of the database: %v", found)
	}
}
