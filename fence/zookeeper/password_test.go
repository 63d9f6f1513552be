package zookeeper

import (
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/fence/zookeeper/zookeepertest"
	"github.com/ringfence/ringfence/internal/test/electiontest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// To ZooKeeper another password is another user, so an operator changes the ACLs, too.
func TestThePasswordOfAnObserverMayChangeWithTheACLs(t *testing.T) {
	t.Parallel()
	server, root := serverstest.SharedZooKeeper(t).Addr(), zookeepertest.FreshRoot()
	file := filepath.Join(t.TempDir(), "password")
	write := func(password string) {
		must.Succeed(t, os.WriteFile(file, []byte(password+"\n"), 0o600))
	}
	write("old")
	leader := openFor(t, "zk://alice:old@"+server+root, 20*time.Second)
	term := electiontest.Win(t, leader, "orders", "a")
	observer := openFor(t, "zk://alice@"+server+root+"?password_file="+url.QueryEscape(file),
		20*time.Second)
	change := documents.Change{Writes: []documents.Write{documents.Create("folder/one", []byte("1"))}}
	_, err := observer.Documents().Change(t.Context(), change)
	must.Succeed(t, err)

	operator := zookeepertest.Connect(t, server)
	for _, password := range []string{"old", "new"} {
		must.Succeed(t, operator.AddAuth("digest", []byte("alice:"+password)))
	}
	for _, at := range below(t, operator, root) {
		_, err := operator.SetACL(at, zk.DigestACL(zk.PermAll, "alice", "new"), -1)
		must.Succeed(t, err)
	}
	write("new")
	if _, leaders, err := observer.Leaders(t.Context(), "orders"); err != nil ||
		leaders[0].Token != term.Token() {
		t.Errorf("%v lead, %v", leaders, err)
	}
	observer.client.Drop(observer.client.Current()) // the session of the old password
	write("old")
	// denied: now the session's password is the old one
	_, _, _ = observer.Leaders(t.Context(), "orders")
	write("new")
	change.Writes[0] = documents.Create("folder/two", []byte("2"))
	if _, err := observer.Documents().Change(t.Context(), change); err != nil {
		t.Error(err)
	}
	only := zookeepertest.Connect(t, server)
	must.Succeed(t, only.AddAuth("digest", []byte("alice:new")))
	below(t, only, root) // which fails if one of them belongs to the old password
}
