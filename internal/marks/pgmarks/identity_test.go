package pgmarks

import (
	"context"
	"testing"

	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// Only the connection that the tag was sent on may be taken for the client's, and only while it is
// a session of the database with the marks.
func TestATagIdentifiesOnlyTheConnectionThatItWasSentOn(t *testing.T) {
	t.Parallel()
	d := led(t)
	elsewhere := d.database
	elsewhere.name = serverstest.FreshDatabase(t, d.pg)
	tag := NewTag()
	tagged := func(d database, statements ...string) uint32 {
		c := d.connect(t, "app")
		for _, text := range statements {
			_, err := c.PgConn().Exec(t.Context(), text).ReadAll()
			must.Succeed(t, err)
		}
		return c.PgConn().PID()
	}
	c := d.connect(t, "app")
	want, err := identify(t.Context(), c)
	must.Succeed(t, err)
	_, err = c.PgConn().Exec(t.Context(), tag).ReadAll()
	must.Succeed(t, err)
	got, ok, err := d.s.Identify(t.Context(), c.PgConn().PID(), tag)
	if err != nil || !ok || got.SessionID != want || got.Superuser {
		t.Errorf("the tagged connection is %+v, %t, %v, want %+v", got, ok, err, want)
	}
	for name, pid := range map[string]uint32{
		"never tagged":     tagged(d.database),
		"another tag":      tagged(d.database, NewTag()),
		"no longer tagged": tagged(d.database, tag, "select 1"),
		"another database": tagged(elsewhere, tag),
		"no such backend":  1,
	} {
		if got, ok, err := d.s.Identify(t.Context(), pid, tag); ok || err != nil {
			t.Errorf("%s: %+v, %t, %v", name, got, ok, err)
		}
	}
	super := d.connect(t, "postgres")
	_, err = super.PgConn().Exec(context.Background(), tag).ReadAll()
	must.Succeed(t, err)
	if got, ok, err := d.s.Identify(t.Context(), super.PgConn().PID(), tag); !ok || !got.Superuser {
		t.Errorf("a superuser's connection is %+v, %t, %v", got, ok, err)
	}
}
