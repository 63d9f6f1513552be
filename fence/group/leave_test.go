package group_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence/etcd"
	"github.com/ringfence/ringfence/fence/group"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestMain(m *testing.M) { os.Exit(serverstest.RunMain(m)) }

// Only the first member holds a term that it resigns. The others are candidates that wait.
func TestAMemberThatHasLeftIsListedNoMore(t *testing.T) {
	server := serverstest.SharedEtcd(t).Addr()
	process := func() *group.Group {
		c, err := etcd.Open(t.Context(), "etcd://"+server+"/leave",
			etcd.Options{SessionTimeout: 30 * time.Second})
		must.Succeed(t, err)
		t.Cleanup(func() { c.Close() })
		return open(t, c)
	}
	here, there := process(), process()
	join := func(name string) *group.Membership {
		m, err := here.Join(name, nil)
		must.Succeed(t, err)
		t.Cleanup(m.Leave)
		id(t, m, 0)
		return m
	}
	join("first")
	var waiting []*group.Membership
	for i := range 5 {
		waiting = append(waiting, join(fmt.Sprint(i)))
	}
	for i, want := range []string{"first 1 2 3 4", "first 2 3 4", "first 3 4", "first 4", "first"} {
		waiting[i].Leave()
		if got := names(t, there); got != want {
			t.Errorf("the members are %q, want %q", got, want)
		}
	}
}
