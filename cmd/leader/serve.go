package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/internal/cli"
	"github.com/ringfence/ringfence/internal/jobserver"
)

func (r *request) serveFlags(f *flag.FlagSet) {
	f.StringVar(&r.listen, "listen", "127.0.0.1:8480", "")
}

// parseListen reads the arguments of serve.
func (c command) parseListen(names []string, dashed bool, r *request) error {
	switch {
	case dashed:
		return fmt.Errorf("%s takes no command", c.name)
	}
	r.jobs = jobsRequest{offered: names}
	for _, name := range names {
		if _, err := group.New(nil, name); err != nil {
			return err
		}
	}
	if _, _, err := net.SplitHostPort(r.listen); err != nil {
		return fmt.Errorf("--listen: %q is not an address such as 127.0.0.1:8480: %w", r.listen, err)
	}
	return nil
}

// stopMost bounds how long requests may go on after a signal.
const stopMost = 5 * time.Second

// serve serves the HTTP API of jobs, and the page, until ctx ends.
func serve(_ *program, ctx context.Context, inv *invocation) int {
	token := inv.config.HTTPToken.Reveal()
	if token == "" && !jobserver.Loopback(inv.listen) {
		return cli.Failed(ctx, inv.log, "serve", fmt.Errorf("%s is no loopback address: set "+
			"LEADER_HTTP_TOKEN, or anybody who reaches it can run commands on the workers", inv.listen))
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", inv.listen)
	if err != nil {
		return cli.Failed(ctx, inv.log, "listen", err)
	}
	s := &jobserver.Server{
		Coordinator: inv.coordinator, Groups: inv.jobs.offered, Token: token,
		Patience: inv.config.SessionTimeout, Log: inv.log,
	}
	server := &http.Server{Handler: s.Handler(ctx), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	inv.log.Info("serving the page and the HTTP API of jobs", "address", "http://"+l.Addr().String()+"/",
		"token", token != "")
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err = <-served:
	case <-ctx.Done():
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopMost)
		defer cancel()
		err = server.Shutdown(stopping)
		<-served
	}
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		return cli.Failed(ctx, inv.log, "serve", err)
	}
	return cli.Failed(ctx, inv.log, "go on", context.Cause(ctx)) // a signal, which has its exit code
}
