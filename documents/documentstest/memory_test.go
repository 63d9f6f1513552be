package documentstest_test

import (
	"testing"
	"time"

	"github.com/ringfence/ringfence/documents"
	"github.com/ringfence/ringfence/documents/documentstest"
	"github.com/ringfence/ringfence/fence/fencetest"
)

func TestMemoryKeepsTheContract(t *testing.T) {
	m := fencetest.NewMemory(time.Minute)
	documentstest.Run(t, documentstest.Fixture{
		Open: func(testing.TB) documents.Coordinator { return m.Open() },
	})
}
