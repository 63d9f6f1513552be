package sqlterms

import (
	"context"
	"testing"
	"time"
)

// From Postgres 18 on GRANT and DROP FUNCTION lock functions before they look at privileges. A
// stranger who owns one function has a GRANT of ours wait behind it, and queues a DROP behind that.
func TestAStrangerHoldsUpNoInstallation(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	admin := s.connect("postgres")
	s.exec(admin, "create schema mine; alter schema mine owner to stranger")
	owner, granter, dropper := s.connect("stranger"), s.connect("stranger"), s.connect("stranger")
	s.exec(owner, "create function mine.f() returns void language sql as ''")
	s.exec(owner, "begin; drop function mine.f()")
	ctx, cancel := context.WithCancel(s.ctx)
	done := make(chan struct{}, 2)
	go func() {
		_, _ = granter.PgConn().Exec(ctx, "grant execute on function ringfence.version(), "+
			"ringfence.take(text, text, bigint), mine.f() to app").ReadAll()
		done <- struct{}{}
	}()
	waits := func(pid uint32) bool {
		var waits bool
		if err := admin.QueryRow(s.ctx, "select exists (select from pg_locks where pid = $1 and not "+
			"granted)", pid).Scan(&waits); err != nil {
			t.Fatal(err)
		}
		return waits
	}
	deadline := time.Now().Add(10 * time.Second)
	for !waits(granter.PgConn().PID()) && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	go func() {
		_, _ = dropper.PgConn().Exec(ctx, "drop function ringfence.version()").ReadAll()
		done <- struct{}{}
	}()
	defer func() { cancel(); <-done; <-done }()
	for !waits(dropper.PgConn().PID()) && time.Now().Before(deadline) && len(done) == 0 {
		time.Sleep(time.Millisecond)
	}
	if err := s.install(); err != nil {
		t.Error(err)
	}
}
