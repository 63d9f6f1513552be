package group_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/fence/fencetest"
	"github.com/ringfence/ringfence/fence/group"
	"github.com/ringfence/ringfence/internal/test/must"
)

func open(t *testing.T, c documents.Coordinator) *group.Group {
	t.Helper()
	g, err := group.New(c, "settlement")
	must.Succeed(t, err)
	return g
}

// id waits until the member has another ID than before.
func id(t *testing.T, m *group.Membership, before fence.Token) fence.Token {
	t.Helper()
	for {
		id, changed, err := m.ID()
		must.Succeed(t, err)
		if id != 0 && id != before {
			return id
		}
		<-changed
	}
}

func names(t *testing.T, g *group.Group) string {
	t.Helper()
	all, err := g.Members(t.Context())
	must.Succeed(t, err)
	var names []string
	for _, m := range all {
		names = append(names, m.Name+string(m.Value))
	}
	return strings.Join(names, " ")
}

func TestMembersComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fencetest.NewMemory(10 * time.Second)
		here, there := m.Open(), m.Open()
		defer here.Close()
		defer there.Close()
		a, b := open(t, here), open(t, there)
		first, err := a.Join("a", []byte(`{"capacity":4}`))
		must.Succeed(t, err)
		id(t, first, 0)
		second, err := b.Join("b", nil)
		must.Succeed(t, err)
		was := id(t, second, 0)
		if got := names(t, a); got != `a{"capacity":4} b` {
			t.Errorf("members: %s", got)
		}
		var seen []int
		ctx, cancel := context.WithCancel(t.Context())
		watching := make(chan error)
		go func() {
			watching <- a.Watch(ctx, func(all []group.Member) error {
				seen = append(seen, len(all))
				return nil
			})
		}()
		synctest.Wait()
		there.Expire()
		if now := id(t, second, was); now <= was {
			t.Errorf("ID %v after %v", now, was)
		}
		first.Leave()
		if got := names(t, b); got != "b" {
			t.Errorf("members: %s", got)
		}
		second.Leave()
		if got := names(t, b); got != "" {
			t.Errorf("members: %s", got)
		}
		cancel()
		if err := <-watching; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if len(seen) == 0 || seen[0] != 2 {
			t.Errorf("seen were %v members", seen)
		}
	})
}

func TestBadNamesAndValuesAreRefused(t *testing.T) {
	m := fencetest.NewMemory(10 * time.Second)
	c := m.Open()
	defer c.Close()
	for _, name := range []string{"", "Upper", "a-b", strings.Repeat("x", 41)} {
		if _, err := group.New(c, name); !errors.Is(err, group.ErrBadName) {
			t.Errorf("%q: %v", name, err)
		}
	}
	g := open(t, c)
	if _, err := g.Join("a", []byte("not JSON")); err == nil {
		t.Error("a value that is not JSON")
	}
	if _, err := g.Join(strings.Repeat("x", 2000), nil); !errors.Is(err, elector.ErrBadHolder) {
		t.Error(err)
	}
}
