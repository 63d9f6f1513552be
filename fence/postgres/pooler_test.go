package postgres

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// between stands between a pooler and its server, and loses the answer to a change of documents.
type between struct {
	lose    atomic.Bool // the next answer
	stays   bool        // away, once it has lost an answer
	away    atomic.Bool
	changes atomic.Int32 // that were sent
}

func (b *between) serve(r *servers.Relay, client, server net.Conn) {
	if !b.away.Load() {
		r.Pump(client, &toServer{Conn: server, b: b, r: r})
	}
}

// toServer is one connection to the server.
type toServer struct {
	net.Conn
	b    *between
	r    *servers.Relay
	lost atomic.Bool
}

func (c *toServer) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("change_documents")) {
		c.b.changes.Add(1)
		if c.b.lose.CompareAndSwap(true, false) {
			c.lost.Store(true)
			c.b.away.Store(c.b.stays)
		}
	}
	return c.Conn.Write(p)
}

func (c *toServer) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p) // the server has committed when it answers
	if !c.lost.Load() {
		return n, err
	}
	if c.b.stays {
		c.r.Drop()
	}
	return 0, io.EOF
}

// The pooler tells its client in an error of its own that it has lost the server. It does so after
// a commit, too.
func TestAChangeIsUnknownIfThePoolerLosesItsAnswer(t *testing.T) {
	t.Parallel()
	for name, stays := range map[string]bool{
		"the server is there": false, "the server stays away": true,
	} {
		t.Run(name, func(t *testing.T) {
			d := fresh(t)
			b := &between{stays: stays}
			r := serverstest.NewRelayWith(t, d.pg.Addr(), servers.RelayOptions{Serve: b.serve})
			c := openWith(t, poolerOf(t, d.pg, r.Addr()).URL("postgres", d.name)+"&listen=off",
				5*time.Second, nil)
			create := func(path string) error {
				_, err := c.Documents().Change(t.Context(), documents.Change{
					Writes: []documents.Write{documents.Create(path, []byte("mine"))},
				})
				return err
			}
			if err := create("folder/first"); err != nil {
				t.Fatal(err)
			}
			before := b.changes.Load()
			b.lose.Store(true)
			err := create("folder/second")
			if !errors.Is(err, documents.ErrUnknown) || errors.Is(err, fence.ErrNotDone) ||
				errors.Is(err, documents.ErrConflict) {
				t.Errorf("the answer was lost: %v", err)
			}
			if n := b.changes.Load() - before; n != 1 {
				t.Errorf("the change was sent %d times", n)
			}
			if n := d.number(t,
				"select count(*) from ringfence_private.document where name = 'second'"); n != 1 {
				t.Errorf("%d documents are stored: this test proves nothing", n)
			}
		})
	}
}
