package documentstest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/internal/test/contract"
)

// Fixture connects the contract to a coordinator.
type Fixture struct {
	// Open makes a client that shares no connection with another, as a separate process would. The
	// contract closes it.
	Open func(t testing.TB) documents.Coordinator

	// Alone makes two clients of a coordinator that no other test uses, because a clause
	// renews its issuer. The contract closes both. May be nil.
	Alone func(t testing.TB) (c, operator documents.Coordinator)

	// Limit is how many bytes a document may have at least. Default 500,000.
	Limit int

	// Cut drops everything between this client and the coordinator, in both directions, and Heal ends
	// the cut. Clauses that need them are skipped if they are missing.
	Cut, Heal func(t testing.TB, c documents.Coordinator)

	// LoseReply loses the reply to the client's next change, which reaches the coordinator. May be
	// nil.
	LoseReply func(t testing.TB, c documents.Coordinator)

	// Hold holds the client's next change on its way to the coordinator. held waits until the client
	// has sent it, release lets it arrive. Reads need not get through meanwhile. May be nil.
	Hold func(t testing.TB, c documents.Coordinator) (held, release func())

	patience time.Duration // how long anything may take; busy when zero
}

// Run checks a store of documents against the contract.
func Run(t *testing.T, f Fixture) {
	contract.RunParallel(t, clauses, func(t *testing.T) *stage { return newStage(t, f) })
}

// busy is how long anything may take on a busy machine.
const busy = 3 * time.Minute

var made atomic.Int64

// stage is one clause's folder, with two clients.
type stage struct {
	testing.TB
	f      Fixture
	ctx    context.Context
	folder string

	here, there documents.Store
	leader      documents.Coordinator // of here
}

func newStage(t testing.TB, f Fixture) *stage {
	t.Helper()
	if f.Limit == 0 {
		f.Limit = 500_000
	}
	if f.patience == 0 {
		f.patience = busy
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*f.patience)
	t.Cleanup(cancel)
	s := &stage{TB: t, f: f, ctx: ctx, leader: open(t, f)}
	s.folder = fmt.Sprintf("test/%d-%d", time.Now().UnixNano(), made.Add(1))
	s.here, s.there = s.leader.Documents(), open(t, f).Documents()
	return s
}

func open(t testing.TB, f Fixture) documents.Coordinator {
	t.Helper()
	return closed(t, f.Open(t))
}

// closed closes a client at the end of the test.
func closed(t testing.TB, c documents.Coordinator) documents.Coordinator {
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close the coordinator: %v", err)
		}
	})
	return c
}

// at returns the path of a document of this stage.
func (s *stage) at(name string) string { return s.folder + "/" + name }

// change makes a change, which must succeed.
func (s *stage) change(in documents.Store, writes ...documents.Write) []int64 {
	s.Helper()
	versions, err := in.Change(s.ctx, documents.Change{Writes: writes})
	if err != nil || len(versions) != len(writes) {
		s.Fatalf("change: %v, %v", versions, err)
	}
	return versions
}

// fails makes a change that must fail with an error.
func (s *stage) fails(want error, c documents.Change) {
	s.Helper()
	if versions, err := s.here.Change(s.ctx, c); !errors.Is(err, want) || versions != nil {
		s.Errorf("the change returned %v, %v; want %v", versions, err, want)
	}
}

// get reads a document of this stage.
func (s *stage) get(in documents.Store, name string) documents.Document {
	s.Helper()
	all, err := in.Get(s.ctx, documents.At(s.at(name)))
	if err != nil || len(all) != 1 || all[0].Path != s.at(name) {
		s.Fatalf("%+v, %v", all, err)
	}
	return all[0]
}

// holds fails the test unless a document has this data.
func (s *stage) holds(name, want string) {
	s.Helper()
	for _, store := range []documents.Store{s.here, s.there} {
		if d := s.get(store, name); !d.Exists() || string(d.Data) != want {
			s.Errorf("%s is %+v, want %q", name, d, want)
		}
	}
}

// missing fails the test if a document exists.
func (s *stage) missing(name string) {
	s.Helper()
	for _, store := range []documents.Store{s.here, s.there} {
		if d := s.get(store, name); d.Exists() || d.Data != nil {
			s.Errorf("%s is %+v, want none", name, d)
		}
	}
}

// lead wins a term of a resource of this stage.
func (s *stage) lead() *fence.Term { s.Helper(); return s.win(s.resource(), "leader") }

func (s *stage) resource() fence.Resource {
	return fence.Resource(fmt.Sprintf("d%d_%d", time.Now().UnixNano(), made.Add(1)))
}

func (s *stage) win(r fence.Resource, holder string) *fence.Term {
	s.Helper()
	term, err := s.leader.Campaign(s.ctx, r, holder)
	if err != nil {
		s.Fatal(err)
	}
	return term
}
