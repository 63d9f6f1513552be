package record

import (
	"io"
	"maps"
	"testing"

	"github.com/ringfence/ringfence/lab/history"
)

func TestARunHasRecoveredOnceEachStoreIsWrittenToAgain(t *testing.T) {
	r := New(history.NewWriter(io.Discard))
	acknowledged := func(store string) {
		for range 10 {
			r.Add(history.Event{
				Kind: history.Return, Process: "worker-1/" + store, Store: store, Do: history.Write,
				Outcome: history.OK,
			})
		}
	}
	acknowledged("postgres")
	acknowledged("redis")
	r.Look(func(s *Seen) {
		before := maps.Clone(s.AckedIn)
		for _, store := range []string{"redis", "postgres"} {
			if s.WrittenSince(before) {
				t.Errorf("recovered before a write to %s", store)
			}
			s.AckedIn[store] += 10
		}
		if !s.WrittenSince(before) {
			t.Error("not recovered after writes to both")
		}
	})
}
