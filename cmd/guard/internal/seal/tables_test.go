package seal

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
)

const partitioned = `create table day (d int, token bigint) partition by range (d);
    create table day1 partition of day for values from (1) to (2);
    create table day2 partition of day for values from (2) to (3) partition by list (d);
    create table day2a partition of day2 default`

// A statement fires only the triggers of the table that it names.
func TestPartitionsHaveSealsOfTheirOwn(t *testing.T) {
	r := newRealm(t)
	r.sql(partitioned)
	r.protect(Request{Resource: "orders", Tables: []string{"day"}})
	stranger, member := r.connect("app"), r.admitted(claimed(5))
	for _, w := range []string{
		"insert into day values (1, 5)", "insert into day1 values (1, 5)", "insert into day2 values " +
			"(2, 5)",
		"insert into day2a values (2, 5)", "delete from day2a", "truncate day1", "truncate day",
		"update day set d = 2 where d = 1",
	} {
		r.refused(stranger, w, "RF002")
		r.do(member, w)
	}
	r.sql("create table day3 partition of day for values from (3) to (4)")
	r.do(stranger, "insert into day3 values (3, 5)") // the hole that check finds
	r.finds("partition-unsealed:public.day3", true)
	r.protect(Request{Resource: "orders", Tables: []string{"day"}})
	r.refused(stranger, "insert into day3 values (3, 5)", "RF002")
	r.finds("partition-unsealed:public.day3", false)
	r.sql("alter table day detach partition day3")
	r.refused(stranger, "insert into day3 values (3, 5)", "RF002")
}

func TestChildrenHaveSealsOfTheirOwn(t *testing.T) {
	r := newRealm(t)
	r.sql("create table child (more text) inherits (entry); create table grandchild () inherits " +
		"(child)")
	stranger := r.connect("app")
	r.refused(stranger, "update entry set token = 7", "RF002")
	r.do(stranger, "insert into grandchild (id, token) values (1, 5)")
	r.finds("partition-unsealed:public.grandchild", true)
	r.protect(Request{Resource: "orders", Tables: []string{"entry"}})
	r.refused(stranger, "insert into grandchild (id, token) values (1, 5)", "RF002")
	r.refused(stranger, "truncate child", "RF002")
}

// A session under orders would write the rows of stock through the parent.
func TestAPartitionIsSealedForTheResourceOfItsParent(t *testing.T) {
	r := newRealm(t)
	r.sql(partitioned)
	r.protect(Request{Resource: "orders", Tables: []string{"day"}})
	_, err := Protect(t.Context(), r.connect("postgres"), Request{
		Resource: "stock", Tables: []string{"day1"},
	})
	if err == nil || !strings.Contains(err.Error(), "not sealed for stock") {
		t.Errorf("a partition for another resource: %v", err)
	}
	r.protect(Request{Resource: "orders", Tables: []string{"day1"}})
	r.protect(Request{Resource: "stock", Tables: []string{"day"}})
}

// The cascade runs as the owner of the table, in the session of the statement.
func TestACascadeFromATableWithoutASealIsRefused(t *testing.T) {
	r := newRealm(t)
	r.sql(`create table customer (id int primary key);
	    create table bill (customer int references customer on delete cascade on update set null);
	    create table line (customer int references customer on delete cascade deferrable initially deferred);
	    insert into customer values (1), (2); insert into bill values (1); insert into line values (2)`)
	r.protect(Request{Resource: "orders", Tables: []string{"bill", "line"}})
	stranger, member := r.connect("app"), r.admitted(claimed(5))
	r.refused(stranger, "delete from customer where id = 1", "RF002")
	r.refused(stranger, "update customer set id = 3 where id = 1", "RF002")
	r.refused(stranger, "begin; delete from customer where id = 2; commit", "RF002")
	r.do(stranger, "rollback")
	r.refused(stranger, "truncate customer cascade", "RF002")
	r.do(member, "delete from customer")
}

func TestASealMovesToAnotherResourceAndComesOff(t *testing.T) {
	r := newRealm(t)
	member := r.admitted(claimed(5))
	r.do(member, insert)
	r.protect(Request{Resource: "stock", Schemas: []string{"public"}})
	if err := r.try(member, insert); err == nil || !strings.Contains(err.Error(), `"stock"`) {
		t.Errorf("under orders, sealed for stock: %v", err)
	}
	c := r.connect("postgres")
	p, err := Unprotect(t.Context(), c, Request{Tables: []string{"entry"}})
	if err == nil {
		err = p.Run(t.Context(), c)
	}
	if err != nil || !slices.Equal(p.Tables, []string{`"public"."entry"`}) {
		t.Fatalf("%v, %v", p, err)
	}
	r.do(r.connect("app"), insert)
	r.finds("seal-lost:public.entry", false)
}

func TestProtectNamesWhatItCannotSeal(t *testing.T) {
	r := newRealm(t)
	r.sql(partitioned + "; create view seen as select 1; create temporary table passing ()")
	c := r.connect("postgres")
	for _, test := range []struct {
		request Request
		says    string
	}{
		{Request{Tables: []string{"nothing"}}, "no table nothing"},
		{Request{Tables: []string{"seen"}}, "no table seen"},
		{Request{Tables: []string{"a.b.c"}}, "no table a.b.c"},
		{Request{Tables: []string{"ringfence_private.mark"}}, "ringfence_private cannot be sealed"},
		{Request{Tables: []string{"pg_catalog.pg_class"}}, "pg_catalog cannot be sealed"},
		{Request{Schemas: []string{"shop"}}, "no schema shop"},
		{Request{Schemas: []string{"ringfence"}}, "no schema ringfence"},
		{Request{Tables: []string{"day1"}}, "protect public.day"},
		{Request{Tables: []string{"entry; drop"}}, "entry; drop"},
		{Request{Tables: []string{"day2a", "day2"}}, "protect public.day"},
	} {
		test.request.Resource = "orders"
		if _, err := Protect(t.Context(), c, test.request); err == nil ||
			!strings.Contains(err.Error(), test.says) {
			t.Errorf("%+v: %v", test.request, err)
		}
	}
	r.sql("update ringfence_private.installation set version = 0")
	if _, err := Protect(t.Context(), c, Request{Resource: "orders",
		Tables: []string{"entry"}}); !errors.Is(err, fence.ErrNotInstalled) ||
		!strings.Contains(err.Error(), "guard install") {
		t.Errorf("an older version: %v", err)
	}
	r.sql("update ringfence_private.installation set version = 99")
	if _, err := Check(t.Context(), c, guardRole); !errors.Is(err, fence.ErrNotInstalled) ||
		!strings.Contains(err.Error(), "version 99") || !strings.Contains(err.Error(), "older than the "+
		"schema") {
		t.Errorf("a newer version: %v", err)
	}
	r.sql("drop schema ringfence, ringfence_private cascade")
	if _, err := Check(t.Context(), c, guardRole); !errors.Is(err, fence.ErrNotInstalled) {
		t.Errorf("no schema: %v", err)
	}
}

func TestForeignAndTemporaryChildrenAreLeftOut(t *testing.T) {
	r := newRealm(t)
	r.sql(partitioned + "; create schema far; create extension postgres_fdw; create server far " +
		"foreign data wrapper postgres_fdw; create foreign table far.day9 partition of day for values " +
		"from (9) to (10) server far")
	other := r.connect("postgres")
	r.do(other, "create temporary table passing () inherits (entry)")
	r.protect(Request{Resource: "orders", Tables: []string{"day", "entry"}})
	r.finds("foreign-table:far.day9", true)
	for _, f := range r.found() {
		if strings.Contains(f, "passing") || strings.HasPrefix(f, "partition-unsealed") {
			t.Errorf("found: %s", f)
		}
	}
	c := r.connect("postgres")
	p, err := Unprotect(t.Context(), c, Request{Tables: []string{"day", "entry"}})
	if err == nil {
		err = p.Run(t.Context(), c)
	}
	if err != nil || len(p.Tables) != 5 {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestUnprotectTakesOnlyNamesThatFit(t *testing.T) {
	r := newRealm(t)
	r.sql("create schema shop; create table shop.gone ()")
	r.protect(Request{Resource: "orders", Tables: []string{"shop.gone"}})
	r.sql("drop schema shop cascade; create schema bare")
	c := r.connect("postgres")
	for _, wrong := range []Request{
		{Tables: []string{"nothing"}}, {Tables: []string{"public.entry.x"}},
		{Tables: []string{"a.public.entry"}},
		{Tables: []string{"entry", "entyr"}}, {Schemas: []string{"public", "pulbic"}},
	} {
		if _, err := Unprotect(t.Context(), c, wrong); err == nil ||
			!strings.Contains(err.Error(), "there is no ") {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
	for _, right := range []Request{
		{Tables: []string{"entry"}}, {Tables: []string{"shop.gone"}}, {Schemas: []string{"shop"}},
		{Schemas: []string{"public", "bare"}},
	} {
		if p, err := Unprotect(t.Context(), c, right); err != nil || len(p.Tables) != 1 {
			t.Errorf("%+v: %+v, %v", right, p, err)
		}
	}
}

func TestNamesAreQuoted(t *testing.T) {
	r := newRealm(t)
	r.sql(`create schema "we""ird\"; create table "we""ird\"."ta'b\le" ();
	    grant usage on schema "we""ird\" to app; grant all on "we""ird\"."ta'b\le" to app`)
	r.protect(Request{Resource: "orders", Tables: []string{`"we""ird\"."ta'b\le"`}})
	r.refused(r.connect("app"), `insert into "we""ird\"."ta'b\le" default values`, "RF002")
	r.finds(`seal-lost:"we""ird\"."ta'b\le"`, false)
}

func TestAnotherInstallationKeepsSealsAndSessions(t *testing.T) {
	r := newRealm(t)
	member := r.admitted(claimed(5))
	r.do(member, insert)
	r.install(pgmarks.Options{})
	r.do(member, insert)
	r.refused(r.connect("app"), insert, "RF002")
}
