package postgres

import (
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/internal/test/electiontest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
)

// The change has found that its term leads, and waits for a document. So nobody else may be elected
// before it has ended.
func TestADepositionWaitsForAChangeThatIsUnderWay(t *testing.T) {
	t.Parallel()
	d := fresh(t)
	c, operator := openWith(t, d.url(), time.Minute, nil), openWith(t, d.url(), time.Minute, nil)
	claim := electiontest.Win(t, c, "orders", "first").Claim()
	change := func(w documents.Write) error {
		_, err := c.Documents().Change(t.Context(), documents.Change{
			While: []fence.Claim{claim}, Writes: []documents.Write{w},
		})
		return err
	}
	must.Succeed(t, change(documents.Create("folder/a", []byte("1"))))
	a, err := c.Documents().Get(t.Context(), documents.At("folder/a"))
	must.Succeed(t, err)
	release := d.lockDocument(t, "a")
	changed, deposed := make(chan error, 1), make(chan error, 1)
	go func() { changed <- change(documents.Replace(a[0], []byte("2"))) }()
	d.waits(t, "change_documents")
	go func() {
		_, err := operator.Depose(t.Context(), "orders", claim.Token)
		deposed <- err
	}()
	d.waits(t, "depose")
	release()
	if err := <-changed; err != nil {
		t.Errorf("the change: %v", err)
	}
	if err := <-deposed; err != nil {
		t.Errorf("the deposition: %v", err)
	}
	if err := change(documents.Create("folder/b", nil)); err == nil {
		t.Error("the deposed leader changes documents")
	}
}

// lockDocument locks the rows of documents with this name.
func (d database) lockDocument(t *testing.T, name string) (release func()) {
	t.Helper()
	conn := pgtest.Connect(t, d.url())
	_, err := conn.Exec(t.Context(), "begin")
	if err == nil {
		_, err = conn.Exec(t.Context(),
			"select from ringfence_private.document d where d.name = $1 for update", name)
	}
	must.Succeed(t, err)
	return func() {
		_, err := conn.Exec(t.Context(), "rollback")
		must.Succeed(t, err)
	}
}

// waits waits until a call of a function waits for a lock.
func (d database) waits(t *testing.T, function string) {
	t.Helper()
	electiontest.Eventually(t, function+" waits for a lock", func() bool {
		return d.number(t, "select count(*) from pg_stat_activity where wait_event_type = 'Lock' "+
			"and datname = current_database() and query like '%ringfence.' || $1 || '(%'", function) == 1
	})
}
