package jobstest_test

import (
	"testing"
	"time"

	"github.com/ringfence/ringfence/documents"
	"github.com/ringfence/ringfence/fence/fencetest"
	"github.com/ringfence/ringfence/jobs/jobstest"
)

func TestJobsInMemory(t *testing.T) {
	m := fencetest.NewMemory(10 * time.Second)
	jobstest.Run(t, jobstest.Fixture{
		Open:   func(testing.TB) documents.Coordinator { return m.Open() },
		Expire: func(_ testing.TB, c documents.Coordinator) { c.(*fencetest.Client).Expire() },
		Kill: func(_ testing.TB, c documents.Coordinator) {
			c.(*fencetest.Client).Cut()
			c.(*fencetest.Client).Expire()
		},
	})
}
