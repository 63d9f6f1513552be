package pgmarks

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/marks"
)

// step publishes in an attached session, as a step does, with settings made before it. It rolls
// back, so that the next step finds the same version.
func step(t *testing.T, c *pgx.Conn, before string) error {
	t.Helper()
	const publish = "begin; set local ringfence.orders = 'attached 5 zk:a'; " +
		"select ringfence.publish('orders', 5, 'zk:a', 'nightly', 2, '{}')"
	_, err := c.PgConn().Exec(t.Context(), before+"; "+publish).ReadAll()
	execute(t, c, "rollback")
	return err
}

// attachedTo5 returns a realm with a checkpoint at version 1 and a session that is attached to
// token
//  5. The mark is 7 already, but nothing has ended the session yet. So only a session whose record
//     is
//
// believed can publish under token 5: a transaction cannot enter.
func attachedTo5(t *testing.T) (*realm, *pgx.Conn) {
	t.Helper()
	d := tasked(t)
	if err := d.run(t,
		"select ringfence.enter_and_publish('orders', 5, 'zk:a', 'nightly', 1, '{}')"); err != nil {
		t.Fatal(err)
	}
	c := d.connect(t, "app")
	if ok, err := Attach(t.Context(), c, claimed(5)); !ok || err != nil {
		t.Fatalf("attached %v, %v", ok, err)
	}
	if _, err := raiseTo(t.Context(), d.s, claimed(7)); err != nil {
		t.Fatal(err)
	}
	return d, c
}

// blind makes a step fail that looks up when its backend started.
func (r *realm) blind(t *testing.T) {
	t.Helper()
	r.sql(t, `create or replace function
	    ringfence.registered(p_resource text, p_token bigint, p_issuer text) returns boolean
	    language plpgsql as $$ begin raise exception 'looked up'; end $$`)
}

func TestAnAttachedSessionPublishesByItsNumber(t *testing.T) {
	t.Parallel()
	d, c := attachedTo5(t)
	d.blind(t)
	if err := step(t, c, ""); err != nil {
		t.Error(err)
	}
}

// A guard has registered the session before it attaches.
func TestASessionThatAGuardHasRegisteredPublishesByItsNumberToo(t *testing.T) {
	t.Parallel()
	d := tasked(t)
	c, admitted := d.admitted(t, claimed(5))
	if admitted != marks.Admitted {
		t.Fatalf("step %v", admitted)
	}
	if err := d.run(t,
		"select ringfence.enter_and_publish('orders', 5, 'zk:a', 'nightly', 1, '{}')"); err != nil {
		t.Fatal(err)
	}
	if err := step(t, c, ""); err != nil {
		t.Errorf("before it attaches: %v", err)
	}
	if ok, err := Attach(t.Context(), c, claimed(5)); !ok || err != nil {
		t.Fatalf("attached %v, %v", ok, err)
	}
	d.blind(t)
	if err := step(t, c, ""); err != nil {
		t.Errorf("after it has attached: %v", err)
	}
	if n := d.list(t, "select count(*)::text from ringfence_private.session")[0]; n != "1" {
		t.Errorf("%s records", n)
	}
}

// The session has lost its number, and its record still proves where it belongs.
func TestASessionWithoutItsNumberIsLookedUp(t *testing.T) {
	t.Parallel()
	d, c := attachedTo5(t)
	for _, lose := range []string{"discard all", "reset all"} {
		execute(t, c, lose)
		if err := step(t, c, ""); err != nil {
			t.Errorf("%s: %v", lose, err)
		}
	}
	d.blind(t)
	if err := step(t, c, ""); err == nil || !strings.Contains(err.Error(), "looked up") {
		t.Errorf("the session was not looked up: %v", err)
	}
}

// The pid of a backend that has ended goes to another backend, while the record is still there.
func TestTheRecordOfAnEarlierBackendProvesNothing(t *testing.T) {
	t.Parallel()
	d, c := attachedTo5(t)
	d.sql(t, `update ringfence_private.session
	    set backend_start = backend_start - interval '1 h', attachment = attachment - 1`)
	if err := step(t, c, ""); sqlstate(err) != "RF001" {
		t.Errorf("an attached session with another one's record: %v", err)
	}
	stranger := d.connect(t, "app")
	d.sql(t, fmt.Sprintf("update ringfence_private.session set pid = %d", stranger.PgConn().PID()))
	if err := step(t, stranger, ""); sqlstate(err) != "RF001" {
		t.Errorf("a session with another one's record: %v", err)
	}
	if err := step(t, stranger, "set ringfence._numbered = 'true'"); sqlstate(err) != "55000" {
		t.Errorf("a session that claims to have a number: %v", err)
	}
}

func TestNobodyButAttachGivesANumber(t *testing.T) {
	t.Parallel()
	d, c := attachedTo5(t)
	for _, call := range []string{"select nextval('ringfence_private.attachment')",
		"select setval('ringfence_private.attachment', 1)", "select " +
			"currval('ringfence_private.attachment')",
		"select last_value from ringfence_private.attachment",
		"update ringfence_private.session set attachment = 1"} {
		if err := d.run(t, call); sqlstate(err) != "42501" {
			t.Errorf("%s: %v", call, err)
		}
		execute(t, c, "rollback")
		if _, err := c.Exec(t.Context(), call); sqlstate(err) != "42501" {
			t.Errorf("%s in an attached session: %v", call, err)
		}
	}
	before := d.list(t, "select attachment::text from ringfence_private.session")[0]
	other := d.connect(t, "app")
	d.lead(t, claimed(8))
	next := claimed(8)
	if ok, err := Attach(t.Context(), other, next); !ok || err != nil {
		t.Fatalf("attached %v, %v", ok, err)
	}
	if after := d.list(t, "select attachment::text from ringfence_private.session"); len(after) != 1 ||
		after[0] == before {
		t.Errorf("numbers %q after %s", after, before)
	}
}
