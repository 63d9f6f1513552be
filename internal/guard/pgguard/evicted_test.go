package pgguard

import (
	"net"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/guard/guardtest"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/test/poll"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// evictable is a setup whose clients the test evicts.
func evictable(e *guardtest.Evictions) setup {
	return setup{limit: func(s *guard.Server) {
		s.MaxLogins, s.Grace = 1, time.Hour
		e.Protocol, s.Protocol = s.Protocol, e
	}}
}

// claim starts a login under token 5.
func (g *guarded) claim(w *rawClient) {
	g.t.Helper()
	w.send(startupOf(0, "user", "app", "database", g.database, "options", "-c fence.orders=5"))
}

// expectEviction fails the test unless the next messages are the eviction's error and the end of
// the stream.
func (w *rawClient) expectEviction() {
	w.t.Helper()
	e := w.until("E").error(w.t)
	if e.Code != "53300" || e.Message != "the place was given to another connection" ||
		e.Hint != "connect again" ||
		e.Detail != "nothing was written; the guard was waiting for this client while others "+
			"waited for room" {
		w.t.Errorf("the client got %+v", e)
	}
	if rest := w.rest(); len(rest) > 0 {
		w.t.Errorf("after the error came %q", rest)
	}
}

func TestAClientEvictedBeforeItSendsAnythingIsToldWhy(t *testing.T) {
	t.Parallel()
	e := &guardtest.Evictions{}
	g := fencedBy(t, evictable(e))
	w := dialWire(t, g.Addr)
	e.EvictFirst(g.Guard)
	w.expectEviction()
}

// The guard picks a silent client, which sends something before the eviction reaches it.
func TestAClientEvictedAsItSendsItsFirstBytesIsToldWhy(t *testing.T) {
	t.Parallel()
	e := &guardtest.Evictions{AtFirstBytes: true}
	g := fencedBy(t, evictable(e))
	w := dialWire(t, g.Addr)
	g.claim(w)
	w.expectEviction()
}

func TestAClientEvictedWhileItWaitsForALoginSlotIsToldWhy(t *testing.T) {
	t.Parallel()
	pg, database := small(t, 20)
	e := &guardtest.Evictions{}
	g := guardBefore(t, pg, database, evictable(e))
	stalled, waiting := dialWire(t, g.Addr), dialWire(t, g.Addr)
	g.claim(stalled)
	stalled.until("R") // it holds the only login slot
	g.claim(waiting)
	g.AwaitMetric("ringfence_connections", "unadmitted", 1)
	e.Now()
	stalled.expectEviction()
	waiting.expectEviction()
}

func TestAClientEvictedBeforePostgresAnswersIsToldWhy(t *testing.T) {
	t.Parallel()
	pg := serverstest.SharedPostgres(t)
	database := prepared(t, pg, serverstest.FreshDatabase(t, pg))
	tap, control := tapBefore(t, pg, database)
	e := &guardtest.Evictions{}
	with := evictable(e)
	with.control = control
	g := guardBefore(t, pg, database, with)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	tap.redirect(silent.Addr().String())
	defer tap.redirect(pg.Addr())
	w := dialWire(t, g.Addr)
	g.claim(w)
	if !poll.Until(30*time.Second, func() bool { return len(tap.sentBy("app")) > 0 }) {
		t.Fatal("the guard sent no login")
	}
	e.Now()
	w.expectEviction()
}

func TestAClientEvictedDuringItsAdmissionIsToldWhy(t *testing.T) {
	t.Parallel()
	e, s := &guardtest.Evictions{}, guardtest.SlowStore{Registering: make(chan struct{})}
	with := evictable(e)
	with.wrap = func(real marks.Store) marks.Store { s.Store = real; return s }
	g := fencedBy(t, with)
	w := dialWire(t, g.Addr)
	g.claim(w)
	<-s.Registering
	e.Now()
	w.expectEviction()
}
