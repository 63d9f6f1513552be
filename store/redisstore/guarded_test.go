package redisstore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/guard/guardtest"
	"github.com/ringfence/ringfence/internal/guard/redisguard"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
	"github.com/ringfence/ringfence/store/redisstore"
)

// guarded starts a server with a guard and returns the guard's address.
func guarded(t *testing.T) (*bench, string) {
	t.Helper()
	b := open(t, serverstest.Redis(t, servers.RedisOptions{}))
	s, err := redismarks.Open(t.Context(), b.server.URL(), redismarks.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a := &marks.Admission{Store: s, Authority: marks.Unverified{}, Timeout: patience}
	p := redisguard.New(redisguard.Options{Store: s, Admission: a})
	return b, guardtest.Serve(t, p)
}

// nothing is the coordinator of a term; it does nothing.
type nothing struct{}

func (nothing) Acknowledge(context.Context) error { return nil }
func (nothing) Release(context.Context) error     { return nil }

// term returns a term that was just won, and its keeper.
func term(t *testing.T, token fence.Token) (*fence.Term, *elector.Keeper) {
	t.Helper()
	term, keeper := elector.NewTerm(claim(token), time.Now(), time.Hour, nothing{})
	t.Cleanup(func() { _ = term.Resign(context.WithoutCancel(t.Context())) })
	return term, keeper
}

// termClient makes a term's client with longer timeouts; change may change more.
func termClient(
	t *testing.T, term *fence.Term, addr string, change func(*driver.Options),
) *driver.Client {
	t.Helper()
	o := &driver.Options{
		Addr: addr, DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience,
	}
	if change != nil {
		change(o)
	}
	db := redisstore.NewClient(term, o)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// names returns the claims that the server's connections carry as their names.
func (b *bench) names(t *testing.T) []string {
	t.Helper()
	var list []string
	for line := range strings.Lines(b.do(t, "CLIENT", "LIST").(string)) {
		_, name, _ := strings.Cut(line, " name=")
		name, _, _ = strings.Cut(name, " ")
		if strings.HasPrefix(name, "fence.") {
			list = append(list, name)
		}
	}
	return list
}
