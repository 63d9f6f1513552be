package sqlterms

import (
	"context"
	"testing"
)

// Who is refused holds the locks of a transaction that has entered, for a moment, and may try again
// and again. A take-over waits for nobody who has come after the raise.
func TestATakeOverDoesNotWaitForWhoIsRefused(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	admin, c := s.connect("postgres"), s.connect("app")
	s.exec(admin, `alter function ringfence.refuse(text, bigint, text, text) rename to refuse_at_once;
		create function ringfence.refuse(p_resource text, p_token bigint, p_issuer text, p_candidate text) returns void
		language plpgsql security definer as $$ begin
			perform pg_advisory_xact_lock(1);
			perform ringfence.refuse_at_once(p_resource, p_token, p_issuer, p_candidate);
		end $$;
		select pg_advisory_lock(1)`)
	first := s.ready(c, "take('orders', 'host-1', 1)")
	inside, err := s.begin(s.connect("second"), "", first.Pass)
	if err != nil {
		t.Fatal(err)
	}
	// The first call raises. The second one notes who is inside, and ends it.
	for range 2 {
		if now := s.one(c, "take('orders', 'host-2', 2)"); now.Ready || now.Ending != 1 {
			t.Fatalf("%+v", now)
		}
	}
	late, refused := s.connect("second"), make(chan error, 1)
	go func() {
		_, err := late.Exec(context.WithoutCancel(s.ctx), "select ringfence.enter($1)", first.Pass)
		refused <- err
	}()
	s.until("select exists (select from pg_locks where pid = $1 and locktype = 'advisory' and not "+
		"granted)", int64(late.PgConn().PID()))
	s.ready(c, "take('orders', 'host-2', 2)")
	s.exec(admin, "select pg_advisory_unlock(1)")
	s.fails(<-refused, "RF001") // and it was not ended
	if err := inside.Commit(s.ctx); err == nil {
		t.Error("a transaction under the older token was committed")
	}
}
