package pgmarks

import (
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/test/poll"
)

// A session locks two tables in the other order. Its own patience is long, so the server ends the
// installation.
func TestAnInstallationThatIsEndedByADeadlockIsRepeated(t *testing.T) {
	t.Parallel()
	d := installed(t)
	other := d.connect(t, "postgres")
	do := func(sql string) {
		t.Helper()
		if _, err := other.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	do("set deadlock_timeout = '10min'")
	do("begin")
	do("lock table ringfence_private.session in share update exclusive mode")
	done := make(chan error, 1)
	go func() { done <- Install(t.Context(), d.url("postgres"), guardRole) }()
	waits := `select count(*)::text from pg_locks where not granted and relation = 'ringfence_private.session'::regclass`
	if !poll.Until(time.Minute, func() bool { return d.list(t, waits)[0] != "0" }) {
		t.Fatal("the installation does not wait")
	}
	// when the installation was ended
	do("lock table ringfence_private.mark in share update exclusive mode")
	do("commit")
	if err := <-done; err != nil {
		t.Error(err)
	}
}
