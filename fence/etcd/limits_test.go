package etcd

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/fence/etcd/etcdtest"
	"github.com/ringfence/ringfence/internal/test/electiontest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestAWriteAboveALimitNamesItAndCostsNoTerm(t *testing.T) {
	t.Parallel()
	const session = 3 * time.Second
	server := serverstest.Etcd(t, servers.EtcdOptions{Args: []string{
		"--max-txn-ops", "4", "--max-request-bytes", "20000", "--quota-backend-bytes", "300000",
	}})
	c := openWith(t, "etcd://"+server.Addr(), session, nil)
	term := electiontest.Win(t, c, "orders", "a")
	many := documents.Change{}
	for i := range 6 {
		many.Writes = append(many.Writes, documents.Create(fmt.Sprint("f/", i), []byte("x")))
	}
	large := documents.Change{Writes: []documents.Write{documents.Create("f/large",
		make([]byte, 30_000))}}
	_, err := c.Documents().Change(t.Context(), many)
	if err == nil || !strings.Contains(err.Error(), "--max-txn-ops") {
		t.Errorf("many: %v", err)
	}
	_, err = c.Documents().Change(t.Context(), large)
	if !errors.Is(err, documents.ErrTooLarge) ||
		!strings.Contains(err.Error(), "--max-request-bytes") {
		t.Errorf("large: %v", err)
	}
	admin := etcdtest.Connect(t, server.Addr())
	for i := 0; err == nil || !strings.Contains(err.Error(), "space"); i++ {
		_, err = admin.Put(t.Context(), fmt.Sprint("/fill/", i), strings.Repeat("x", 15_000))
	}
	small := documents.Change{Writes: []documents.Write{documents.Create("f/small", []byte("x"))}}
	if _, err = c.Documents().Change(t.Context(), small); err == nil ||
		!strings.Contains(err.Error(), "--quota-backend-bytes") {
		t.Errorf("no space: %v", err)
	}
	from := time.Now().Add(session)
	electiontest.Eventually(t, "the term goes on", func() bool { return term.Deadline().After(from) })
}
