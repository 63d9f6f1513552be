package fencetest

import (
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/fence/documents/documentstest"
)

// Documents is the fixture of documents next to elections in memory.
func Documents() documentstest.Fixture {
	m := NewMemory(time.Minute)
	memory := func(c documents.Coordinator) *documentstest.Memory {
		return c.Documents().(*documentstest.Memory)
	}
	return documentstest.Fixture{
		Open: func(testing.TB) documents.Coordinator { return m.Open() },
		Alone: func(testing.TB) (c, operator documents.Coordinator) {
			m := NewMemory(time.Minute)
			return m.Open(), m.Open()
		},
		Limit:     documentstest.MemoryLimit,
		Cut:       func(_ testing.TB, c documents.Coordinator) { memory(c).Cut() },
		Heal:      func(_ testing.TB, c documents.Coordinator) { memory(c).Heal() },
		LoseReply: func(_ testing.TB, c documents.Coordinator) { memory(c).LoseReply() },
		Hold: func(_ testing.TB, c documents.Coordinator) (held, release func()) {
			return memory(c).Hold()
		},
	}
}
