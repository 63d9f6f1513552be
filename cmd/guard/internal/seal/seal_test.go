package seal

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/test/must"
)

// objects are what some of the writes need.
const objects = `create view seen as select * from entry;
    create table source (token bigint); insert into source values (1);
    create function written() returns void language sql security definer as 'insert into public.entry (token) values (5)';
    grant all on seen, source to app`

// writes are statements that write to entry, each in its own way.
var writes = []string{
	"insert into entry (token) values (5)",
	"insert into entry (id, token) values (1, 5) on conflict (id) do update set token = 5",
	"insert into entry (token) select token from source where false",
	"update entry set token = 6",
	"update entry set token = 6 where false",
	"delete from entry",
	"truncate entry",
	"merge into entry e using source s on e.token = s.token when not matched then insert (token) " +
		"values (s.token)",
	"insert into seen (token) values (5)",
	"select written()",
	"with w as (insert into entry (token) values (5) returning 1) select * from w",
	"do $$ begin execute 'insert into entry (token) values (5)'; end $$",
}

func (r *realm) copies(c *pgx.Conn) error {
	ctx, cancel := r.bounded()
	defer cancel()
	_, err := c.PgConn().CopyFrom(ctx, strings.NewReader("5\n"), "copy entry (token) from stdin")
	return err
}

func TestASealedTableTakesEveryKindOfWriteOnlyUnderTheMark(t *testing.T) {
	r := newRealm(t)
	r.sql(objects)
	stranger, member := r.connect("app"), r.admitted(claimed(5))
	for _, w := range writes {
		if strings.HasPrefix(w, "merge") && !r.atLeast(15) {
			continue
		}
		r.refused(stranger, w, "RF002")
		r.do(member, w)
	}
	if err := r.copies(stranger); err == nil || !strings.Contains(err.Error(), "RF002") {
		t.Errorf("copy: %v", err)
	}
	if err := r.copies(member); err != nil {
		t.Errorf("copy: %v", err)
	}
	r.do(stranger, "select * from entry for update") // no write
}

func (r *realm) atLeast(version int) bool {
	r.t.Helper()
	var n int
	err := r.connect("postgres").QueryRow(r.t.Context(),
		"select current_setting('server_version_num')::int / 10000").Scan(&n)
	must.Succeed(r.t, err)
	return n >= version
}

const insert = "insert into entry (token) values (5)"

// A setting is a claim at most, and an invented one is refused for what it is.
func TestNoSettingOfTheSessionIsBelieved(t *testing.T) {
	r := newRealm(t)
	r.lead(7)
	for _, test := range []struct{ setting, want string }{
		{"set fence.orders = 7", "RF002"},
		{"set ringfence.orders = ''", "RF002"},
		{"set ringfence.orders = 'entered'", "RF002"},
		{"set ringfence.orders = 'entered seven zk:a'", "RF002"},
		{"set ringfence.orders = 'entered 5 zk:a'", "RF001"},
		{"set ringfence.orders = 'attached 5 zk:a'", "RF001"},
		{"set ringfence.orders = 'entered 9 zk:a'", "RF012"},
		{"set ringfence.orders = 'entered 7 zk:b'", "RF004"},
		{"set ringfence.stock = 'entered 7 zk:a'", "RF002"},
	} {
		c := r.connect("app")
		r.do(c, test.setting)
		r.refused(c, insert, test.want)
	}
	for _, forbidden := range []string{
		"select setval('ringfence_private.birth', 1)", "select nextval('ringfence_private.birth')",
		"alter table entry disable trigger all", "drop trigger ringfence_seal on entry",
		"set session_replication_role = replica", "select ringfence.seal()",
		"create temporary table other (); create trigger t before insert on other execute function " +
			"ringfence.seal('orders')",
	} {
		if r.try(r.connect("app"), forbidden) == nil {
			t.Errorf("app may: %s", forbidden)
		}
	}
}

// The functions of the same names claim to be another backend, which is admitted.
func TestObjectsWithTheSameNamesAreNotUsed(t *testing.T) {
	r := newRealm(t)
	r.sql("grant create on schema public to app")
	r.admitted(claimed(5))
	var pid, birth int64
	err := r.connect("postgres").QueryRow(t.Context(), "select pid, extract(epoch from "+
		"backend_start) * 1000000 from ringfence_private.session").Scan(&pid, &birth)
	must.Succeed(t, err)
	c := r.connect("app")
	for _, shadow := range []string{
		"create temporary table session as select 'orders' as resource, 5::bigint as token, 'zk:a' as " +
			"issuer, pg_backend_pid() as pid, now() as backend_start",
		"create temporary table mark as " +
			"select 'orders' as resource, 5::bigint as token, 'zk:a' as issuer",
		fmt.Sprintf("create function public.pg_backend_pid() returns integer language sql as 'select %d'",
			pid),
		fmt.Sprintf("create function public.currval(regclass) returns bigint language sql as 'select "+
			"%d::bigint'", birth),
		"set search_path = pg_temp, public, pg_catalog",
	} {
		r.do(c, shadow)
	}
	r.refused(c, "insert into public.entry (token) values (5)", "RF002")
}

// ENABLE ALWAYS: logical replication sets this too.
func TestReplicationRoleDoesNotSwitchASealOff(t *testing.T) {
	r := newRealm(t)
	c := r.connect("postgres")
	r.do(c, "set session_replication_role = replica")
	r.refused(c, insert, "RF002")
}

func TestASessionUnderAnotherResourceIsRefused(t *testing.T) {
	r := newRealm(t)
	stock := claimed(5)
	stock.Resource = "stock"
	r.raise(stock)
	must.Succeed(t, r.revoke(stock))
	r.refused(r.admitted(stock), insert, "RF002")
}

// A pid is used again, so a record may be of an earlier backend.
func TestARecordOfAnEarlierBackendIsNotBelieved(t *testing.T) {
	r := newRealm(t)
	c := r.connect("app")
	for range 2 {
		r.sql(fmt.Sprintf("insert into ringfence_private.session (resource, token, issuer, pid, "+
			"backend_start) values ('orders', 5, 'zk:a', %d, clock_timestamp())", c.PgConn().PID()))
		r.refused(c, insert, "RF002")
	}
	member := r.admitted(claimed(5))
	r.do(member, insert)
	for _, reset := range []string{"discard sequences", "discard all", "reset all"} {
		r.do(member, reset)
		r.do(member, insert)
	}
}

// Until the revocation ends it, a deposed session is refused. A transaction with a snapshot from
// before the raise cannot know that, and is ended before the newer leader is admitted.
func TestADeposedSessionIsRefusedOrEnded(t *testing.T) {
	r := newRealm(t)
	current, snapshot, attached := r.admitted(claimed(5)), r.admitted(claimed(5)), r.connect("app")
	if ok, err := pgmarks.Attach(t.Context(), attached, claimed(5)); !ok || err != nil {
		t.Fatal(ok, err)
	}
	r.do(current, "begin; "+insert)
	r.do(snapshot, "begin isolation level repeatable read; select * from entry")
	r.do(attached, insert)
	r.raise(claimed(7))
	r.refused(current, insert, "RF001")
	r.refused(attached, insert, "RF001")
	r.do(snapshot, insert)
	must.Succeed(t, r.revoke(claimed(7)))
	for _, c := range []*pgx.Conn{current, snapshot, attached} {
		if r.try(c, "commit") == nil {
			t.Error("an older session is alive after the revocation")
		}
	}
	if n := r.count(); n != 1 {
		t.Errorf("%d rows, want the one from before the raise", n)
	}
	r.do(r.admitted(claimed(7)), insert)
}

// What was restored proves nothing: the record looks right, and the mark's row is a copy.
func TestACopiedMarkRefusesEveryWrite(t *testing.T) {
	r := newRealm(t)
	member := r.admitted(claimed(5))
	r.do(member, insert)
	r.sql("create table kept as select * from ringfence_private.mark; delete from " +
		"ringfence_private.mark; insert into ringfence_private.mark select * from kept")
	r.refused(member, insert, "RF012")
	r.sql("delete from ringfence_private.mark")
	r.refused(member, insert, "RF012")
}
