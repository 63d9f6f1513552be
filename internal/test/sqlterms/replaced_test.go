package sqlterms

import (
	"cmp"
	"fmt"
	"testing"
)

// replaced are the eight mistakes of docs/by-hand.md in place of the contract, for programs that do
// not notice. check is the body of enter, which fails with RF001 unless it finds a row; pass is the
// pass, and v_token the token in it.
var replaced = []struct {
	name, level string
	setup       string
	check       string
	take        string // the pass that everybody gets at once; empty: the contract's take
	lock        bool   // who leads has a session lock, and host-2 leads when the program starts
}{
	{
		name: "a check without a lock", check: "select from ringfence_private.mark where resource = " +
			"'orders' and token = v_token",
	},
	{name: "an old snapshot", level: "repeatable read", check: "select set_config('by_hand.token', v_token::text, true)", setup: `
		create function at_commit() returns trigger language plpgsql security definer as $$ begin
			if not exists (select from ringfence_private.mark where token::text = current_setting('by_hand.token')) then
				raise exception using errcode = 'RF001';
			end if;
			return null;
		end $$;
		create constraint trigger at_commit after insert on ledger deferrable initially deferred for each row execute function at_commit()`},
	// each had read 0
	{
		name: "a token that is read and then written", take: "orders 1 by-hand ", check: "select where " +
			"v_token = 1",
	},
	{name: "an epoch that nobody holds", take: "orders 0 by-hand ",
		check: "select where v_token = 0 or exists (select from ringfence_private.mark where token = " +
			"v_token)"},
	{
		name: "a predicate that the successor's row satisfies", check: "select from " +
			"ringfence_private.mark where resource = 'orders'",
	},
	{name: "a check when the session opens", check: `select where current_setting('by_hand.checked', true) = 'yes' or
		exists (select from ringfence_private.mark where token = v_token and set_config('by_hand.checked', 'yes', false) = 'yes')`},
	// it has not heard of the take-over
	{name: "a check in another store", setup: "create table elsewhere (token bigint)",
		check: "select from ringfence_private.mark where not exists (select from elsewhere) or exists " +
			"(select from elsewhere where token = v_token)"},
	{
		name: "a session lock behind a pooler", lock: true, take: "orders 1 by-hand ", check: "select " +
			"where pg_try_advisory_lock(7)",
	},
}

// byHand replaces the contract.
func (s *stage) byHand(setup, check, take string) {
	s.Helper()
	admin := s.connect("postgres")
	s.exec(admin, "create table ledger (line text); grant all on ledger to app;"+setup)
	s.exec(admin, fmt.Sprintf(`create or replace function ringfence.enter(pass text) returns void language plpgsql security definer as $f$
		declare v_token bigint := split_part(pass, ' ', 2)::bigint;
		begin
			perform from (%s) c;
			if not found then raise exception using errcode = 'RF001'; end if;
		end $f$`, check))
	if take != "" {
		s.exec(admin, fmt.Sprintf(`create or replace function ringfence.take(resource text, holder text, attempt bigint default null)
			returns setof ringfence.term language plpgsql security definer as $f$ begin
				perform ringfence.enter('%[1]s');
				return query select take.resource, 1::bigint, 'by-hand', '%[1]s', true, 0, take.holder, null::timestamptz, null::text;
			end $f$`, take))
	}
}

// The tests of the fence in other languages can fail: with each mistake in place of enter a write
// gets in.
func TestProgramsInOtherLanguagesWithAFenceByHandLoseAWrite(t *testing.T) {
	t.Parallel()
	eachLanguage(t, func(t *testing.T, command []string) {
		for _, r := range replaced {
			t.Run(r.name, func(t *testing.T) {
				s := newStage(t)
				s.byHand(r.setup, r.check, r.take)
				at := s.address(r.lock)
				if r.lock {
					s.ready(s.pooled(at), "take('orders', 'host-2', 2)")
				}
				p := s.start(command, cmp.Or(r.level, "read committed"), at)
				p.hears("wrote")
				if r.lock {
					return // beside host-2, whose lock it shares
				}
				p.hears("inside")
				s.ready(s.connect("app"), "take('orders', 'host-2', 2)")
				p.goOn()
				if first, second := p.says(), p.says(); first != "STALE" && second != "STALE" {
					t.Errorf("the fence by hand has held (%s, %s): the tests of the contract prove nothing", first,
						second)
				}
			})
		}
	})
}
