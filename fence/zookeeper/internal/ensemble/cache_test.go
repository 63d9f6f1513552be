package ensemble

import (
	"context"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// present opens the client's session, if there is none, and returns it.
func present(t *testing.T, c *Client) *Session {
	t.Helper()
	s, err := Ask(t.Context(), c, func(_ context.Context, s *Session) (*Session, error) {
		return s, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestACacheBelongsToOneSession(t *testing.T) {
	c := openClient(t, "zk://"+serverstest.SharedZooKeeper(t).Addr(), 20*time.Second)
	var cache Cache[[]string]
	add := func(s *Session, what string) (all []string, used bool) {
		used = cache.Use(s, func(v *[]string) { *v = append(*v, what); all = *v })
		return all, used
	}
	first := present(t, c)
	add(first, "a")
	if all, used := add(first, "b"); !used || len(all) != 2 {
		t.Errorf("in one session it holds %q, used is %v", all, used)
	}
	c.Drop(first)
	if all, used := add(first, "c"); used {
		t.Errorf("in a session that was dropped it holds %q", all)
	}
	second := present(t, c)
	if all, used := add(second, "d"); !used || len(all) != 1 {
		t.Errorf("in the next session it holds %q, used is %v", all, used)
	}
	if all, used := add(first, "e"); used {
		t.Errorf("in the session before it holds %q", all)
	}
	if all, _ := add(second, "f"); len(all) != 2 {
		t.Errorf("after a late call of the session before it holds %q", all)
	}
}
