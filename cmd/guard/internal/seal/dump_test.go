package seal

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// restored dumps a realm's database and restores it as another one on the same server.
func (r *realm) restored(extra ...string) *realm {
	r.t.Helper()
	serverstest.NotOlder(r.t, r.pg, "pg_dump")
	ctx, cancel := r.bounded()
	defer cancel()
	arguments := append(extra, "-d", r.pg.URL("postgres", r.name))
	dump, err := exec.CommandContext(ctx, "pg_dump", arguments...).Output()
	must.Succeed(r.t, err)
	other := &realm{t: r.t, pg: r.pg, name: serverstest.FreshDatabase(r.t, r.pg)}
	restore := exec.CommandContext(ctx, "psql", "-q", "-v", "ON_ERROR_STOP=1",
		"-d", r.pg.URL("postgres", other.name))
	restore.Stdin = strings.NewReader(string(dump))
	if out, err := restore.CombinedOutput(); err != nil {
		r.t.Fatalf("%v: %s", err, out)
	}
	return other
}

// The data are restored before the seals are created. Then nobody writes until a leader has raised
// the mark there.
func TestASealedDatabaseIsRestoredWithItsDataAndItsSeals(t *testing.T) {
	r := newRealm(t)
	r.do(r.admitted(claimed(5)), insert)
	other := r.restored()
	if n := other.count(); n != 1 {
		t.Errorf("%d rows were restored, want 1", n)
	}
	stranger := other.connect("app")
	other.refused(stranger, insert, "RF002")
	other.do(stranger, "set ringfence.orders = 'entered 5 zk:a'")
	other.refused(stranger, insert, "RF012")
	other.finds("seal-lost:public.entry", false)
	other.finds("seal-changed:public.entry", false)

	other.install(pgmarks.Options{})
	other.lead(5)
	other.do(other.admitted(claimed(5)), insert)
	other.refused(other.connect("app"), insert, "RF002")
}

// For a copy that is to be written to, the seals come off.
func TestACopyIsUnsealed(t *testing.T) {
	r := newRealm(t)
	other := r.restored("--clean", "--if-exists")
	c := other.connect("postgres")
	p, err := Unprotect(t.Context(), c, Request{Schemas: []string{"public"}})
	if err == nil {
		err = p.Run(t.Context(), c)
	}
	must.Succeed(t, err)
	other.do(other.connect("app"), insert)
}

// Data alone go through the triggers, like other writes.
func TestDataAloneAreNotRestoredPastASeal(t *testing.T) {
	r := newRealm(t)
	serverstest.NotOlder(t, r.pg, "pg_dump")
	r.do(r.admitted(claimed(5)), insert)
	ctx, cancel := r.bounded()
	defer cancel()
	dump, err := exec.CommandContext(ctx, "pg_dump", "--data-only", "-t", "entry",
		"-d", r.pg.URL("postgres", r.name)).Output()
	must.Succeed(t, err)
	restore := exec.CommandContext(ctx, "psql", "-q", "-v", "ON_ERROR_STOP=1",
		"-d", r.pg.URL("postgres", r.name))
	restore.Stdin = strings.NewReader(string(dump))
	if out, err := restore.CombinedOutput(); err == nil || !strings.Contains(string(out), "no token") {
		t.Errorf("%v: %s", err, out)
	}
}
