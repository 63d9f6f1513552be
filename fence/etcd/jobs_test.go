package etcd

import (
	"testing"

	"github.com/ringfence/ringfence/documents"
	"github.com/ringfence/ringfence/jobs/jobstest"
)

func TestJobsKeepTheirContract(t *testing.T) {
	h := harness(t)
	jobstest.Run(t, jobstest.Fixture{
		Open:   func(t testing.TB) documents.Coordinator { return h.Open(t).(*Coordinator) },
		Expire: func(t testing.TB, c documents.Coordinator) { h.Expire(t, c) },
		Kill: func(t testing.TB, c documents.Coordinator) {
			h.Cut(t, c)
			h.Expire(t, c)
			t.Cleanup(func() { h.Heal(t, c) })
		},
	})
}
