package etcd

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/etcd/etcdtest"
	"github.com/ringfence/ringfence/internal/test/electiontest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// The library sends one request after another to each member in turn. So with several processes the
// frozen member gets each kind of request.
func TestAFrozenMemberSuspendsNoTerm(t *testing.T) {
	t.Parallel()
	const processes, heartbeats = 6, 4 // later the library has noticed that the member does not answer
	server := serverstest.Etcd(t, servers.EtcdOptions{Members: 3})
	leader, _ := leads(t, etcdtest.Connect(t, server.Addr()), server.Members, 0)
	var terms []*fence.Term
	for i := range processes {
		c := openWith(t, "etcd://"+server.Addr(), 10*time.Second, nil)
		terms = append(terms, electiontest.Win(t, c, fence.Resource(fmt.Sprint("r", i)), "a"))
	}
	if err := others(server, leader)[0].Pause(); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for _, term := range terms {
		all.Go(func() { staysActive(t, term, heartbeats) })
	}
	all.Wait()
}

// staysActive waits until a term has been confirmed several times.
func staysActive(t *testing.T, term *fence.Term, times int) {
	_, changed := term.Watch()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for last := term.Deadline(); times > 0; {
		select {
		case <-changed:
			t.Errorf("%v is %v", term.Claim(), term.State())
			return
		case <-look.C:
		}
		if now := term.Deadline(); now.After(last) {
			last, times = now, times-1
		}
	}
}
