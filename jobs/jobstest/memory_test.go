package jobstest_test

import (
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/fence/fencetest"
	"github.com/ringfence/ringfence/jobs/jobstest"
)

func TestJobsInMemory(t *testing.T) {
	jobstest.Run(t, inMemory(func(c documents.Coordinator) documents.Coordinator { return c }))
}

func TestJobsOnABadNetwork(t *testing.T) { jobstest.Run(t, inMemory(jobstest.Shaky)) }

// inMemory is a fixture whose clients are wrapped.
func inMemory(wrap func(documents.Coordinator) documents.Coordinator) jobstest.Fixture {
	m := fencetest.NewMemory(10 * time.Second)
	var mu sync.Mutex
	clients := map[documents.Coordinator]*fencetest.Client{}
	of := func(c documents.Coordinator) *fencetest.Client {
		mu.Lock()
		defer mu.Unlock()
		return clients[c]
	}
	return jobstest.Fixture{
		Open: func(testing.TB) documents.Coordinator {
			client := m.Open()
			c := wrap(client)
			mu.Lock()
			defer mu.Unlock()
			clients[c] = client
			return c
		},
		Expire: func(_ testing.TB, c documents.Coordinator) { of(c).Expire() },
		Kill: func(t testing.TB, c documents.Coordinator) {
			of(c).Cut()
			of(c).Expire()
			t.Cleanup(of(c).Heal)
		},
	}
}
