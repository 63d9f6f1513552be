package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/ringfence/ringfence/cmd/internal/metrics"
	"github.com/ringfence/ringfence/cmd/internal/webpage"
	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/jobs/queueview"
)

// maxAnswer bounds how long an answer at LEADER_HTTP_LISTEN takes, also to a client that does not
// read it.
const maxAnswer = 30 * time.Second

// monitor serves metrics and readiness at LEADER_HTTP_LISTEN until stop, for the commands that
// lead. ctx ends when the process has been told to end.
func (inv *invocation) monitor(ctx context.Context) (stop func(), err error) {
	if inv.config.HTTPListen == "" {
		return func() {}, nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", webpage.OnLoopback(inv.config.HTTPListen))
	if err != nil {
		return nil, fmt.Errorf("LEADER_HTTP_LISTEN: %w", err)
	}
	inv.metrics = metrics.New(inv.coordinator, inv.config.Coordinator.Scrub)
	inv.metrics.DroppedLines(inv.dropped)
	inv.coordinator = inv.metrics.Watch(inv.coordinator, inv.resource)
	access := inv.access()
	access.Local = webpage.Loopback(l.Addr().String())
	server := webpage.Server{
		Handler: inv.metrics.Handler(access, ctx), Answer: maxAnswer, Grace: time.Second, Log: inv.log,
	}
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	var background sync.WaitGroup
	background.Go(func() {
		if err := server.Serve(serving, l); err != nil { // it leads all the same
			inv.log.Warn("metrics and readiness are not served any more", "cause", err.Error())
		}
	})
	inv.log.Info("serving metrics and readiness", "address", "http://"+l.Addr().String()+"/metrics")
	return func() { end(); background.Wait() }, nil
}

// access says who may read /metrics.
func (inv *invocation) access() webpage.Access {
	return webpage.Access{
		Token: inv.config.HTTPToken.Reveal(), Setting: "LEADER_HTTP_TOKEN", Local: true,
	}
}

// watchWorker counts what a worker does, and shows the queue of its group while it assigns jobs.
func (inv *invocation) watchWorker(v *queueview.View, w *jobs.Worker) {
	if inv.metrics != nil {
		inv.metrics.Worker(w)
		inv.metrics.Group(v, w.Name)
	}
}

// monitored adds metrics and readiness to what leader serve serves. They have the queues of the
// groups that it was started with.
func (inv *invocation) monitored(ctx context.Context, rest http.Handler) (http.Handler, error) {
	m := metrics.New(inv.coordinator, inv.config.Coordinator.Scrub)
	m.DroppedLines(inv.dropped)
	for _, group := range inv.jobs.offered {
		q, err := queueview.New(inv.coordinator, group)
		if err != nil {
			return nil, err
		}
		m.Group(q, "")
	}
	own := m.Handler(inv.access(), ctx)
	mux := http.NewServeMux()
	mux.Handle("/", rest)
	for _, path := range []string{"/livez", "/readyz", "/metrics"} {
		mux.Handle("GET "+path, own)
	}
	return mux, nil
}
