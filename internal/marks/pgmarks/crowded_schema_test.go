package pgmarks

import (
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/test/must"
)

// crowdSQL is what a role with CREATE on the schema can do: for each of our functions it makes
// others of the same name, with one parameter of another type or without those that have a default.
// Each fails. The calls of a guard that leave the type of an argument open would reach them.
const crowdSQL = `do $do$
declare
    f record;
    v_all text[];
    v_part text[];
    v_other text;
    i integer;
begin
    for f in select p.proname, p.pronargs, p.pronargdefaults, p.proargtypes from pg_proc p
              where p.pronamespace = 'ringfence'::regnamespace and p.pronargs > 0 loop
        v_all := array(select format_type(u.type, null) from unnest(f.proargtypes) with ordinality u(type, place) order by u.place);
        for i in f.pronargs - f.pronargdefaults .. f.pronargs - 1 loop
            perform pg_temp.crowd(f.proname, v_all[1:i]);
        end loop;
        for i in 1 .. f.pronargs loop
            foreach v_other in array array['text', 'integer', 'bigint', 'name', 'character varying'] loop
                v_part := v_all;
                v_part[i] := v_other;
                perform pg_temp.crowd(f.proname, v_part);
            end loop;
        end loop;
    end loop;
end $do$`

const crowdOneSQL = `create function pg_temp.crowd(p_name name, p_types text[]) returns void language plpgsql as $$
begin
    execute format('create function ringfence.%I(%s) returns integer language plpgsql as ''begin raise exception $m$foreign function %s(%s)$m$; end''',
        p_name, array_to_string(p_types, ', '), p_name, array_to_string(p_types, ', '));
exception when duplicate_function then
    null;
end $$`

func TestForeignFunctionsInTheSchemaAreNeverCalled(t *testing.T) {
	t.Parallel()
	r := led(t)
	r.sql(t, crowdOneSQL+"; "+crowdSQL)
	older, newer := r.next(), r.next()
	r.lead(t, older)
	_, tx := r.enters(t, older, at(pgx.ReadCommitted))
	must.Report(t, tx.Commit(t.Context()))
	attached := r.connect(t, "app")
	if yes, err := Attach(t.Context(), attached, older); err != nil || !yes {
		t.Errorf("attach: %v, %v", yes, err)
	}
	session, next := r.admitted(t, older)
	if next != marks.Admitted {
		t.Errorf("a session of the leader: %v", next)
	}
	r.lead(t, newer)
	for _, c := range []*pgx.Conn{attached, session} {
		if c.Ping(t.Context()) == nil {
			t.Error("a session of an older token lives")
		}
	}
	must.Report(t, r.s.exec(t.Context(), "select ringfence.sweep()"))
	if _, err := r.s.Marks(t.Context()); err != nil {
		t.Error(err)
	}
	a := r.authorizer(t)
	must.Report(t, a.Allow(t.Context(), "app", "orders"))
	for _, patterns := range [][]marks.Pattern{{"orders"}, nil} {
		if _, err := a.Forbid(t.Context(), "app", patterns...); err != nil {
			t.Error(err)
		}
	}
	must.Report(t, a.Authorize(t.Context(), true))
}

// A literal without a type fits a parameter of any type.
func TestCallsOfOurFunctionsGiveEachArgumentItsType(t *testing.T) {
	t.Parallel()
	call := regexp.MustCompile(`ringfence\.[a-z_]+\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)`)
	open := regexp.MustCompile(`(?:\(|, )(?:'[^']*'|null|[0-9]+|\$[0-9]+)(?:,|\))`)
	inner := regexp.MustCompile(`\((?:[^()]|\([^()]*\))*\)`) // arguments of other functions
	texts := map[string]string{"statements.go": identifySQL + registerSQL + raiseSQL + revokeSQL +
		releaseSQL}
	texts["pgschema"] = Roles{}.SQL()
	calls := 0
	for name, text := range texts {
		for _, c := range call.FindAllString(text, -1) {
			calls++
			arguments := "(" + inner.ReplaceAllString(c[strings.Index(c, "(")+1:len(c)-1], "…") + ")"
			if open.MatchString(arguments) {
				t.Errorf("%s: an argument without a type: %s", name, c)
			}
		}
	}
	if calls < 100 {
		t.Errorf("only %d calls were found", calls)
	}
}
