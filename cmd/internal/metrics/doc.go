// Package metrics has what the program leader shows to Prometheus and to orchestrators: /metrics,
// /readyz and /livez of leader run, task, work and serve.
//
//	m := metrics.New(coordinator, scrub)
//	coordinator = m.Watch(coordinator, resource) // counts the terms that it hands out
//	m.Worker(&worker, group)                     // counts the attempts of jobs
//	m.Group(queue, nil)                          // shows the queue
//	http.Handle("/", m.Handler(access, stopping))
//
// No label is a token, a holder, a job or the resource of a job: there is no limit to those. The
// resource of leader run and leader task is a label, because the process has one.
//
// What the coordinator knows is read at a scrape, in three seconds at most, and the queue of a
// group once in ten seconds at most. If it cannot be read, its series are missing, and
// ringfence_coordinator_ready is 0.
package metrics
