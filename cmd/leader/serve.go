package main

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/cmd/internal/webpage"
	"github.com/ringfence/ringfence/cmd/leader/internal/jobserver"
	"github.com/ringfence/ringfence/cmd/leader/internal/work"
	"github.com/ringfence/ringfence/fence/group"
)

func (p *program) serveCommand() *cobra.Command {
	inv := &invocation{}
	c := &cobra.Command{
		Use: "serve [flags] [GROUP…]", Args: inv.ofPage,
		Short: "Serve the HTTP API of jobs, and a page that shows them, until interrupted",
		Long:  serveHelp, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: p.doing(inv, action{uses: []string{useToken}, run: serve, lasts: true}),
	}
	c.Flags().StringVar(&inv.listen, "listen", "127.0.0.1:8480", "`ADDRESS` of the API and the page")
	return c
}

// ofPage reads the arguments of serve.
func (inv *invocation) ofPage(_ *cobra.Command, names []string) error {
	inv.jobs.offered = names
	for _, name := range names {
		if _, err := group.New(nil, name); err != nil {
			return err
		}
	}
	if _, _, err := net.SplitHostPort(inv.listen); err != nil {
		return fmt.Errorf("--listen: %q is not an address such as 127.0.0.1:8480: %w", inv.listen, err)
	}
	return nil
}

// stopTimeout bounds how long requests may go on after a signal.
const stopTimeout = 5 * time.Second

// downloadTimeout bounds how long a client takes for an answer.
const downloadTimeout = time.Minute

// serve serves the HTTP API of jobs, and the page, until ctx ends.
func serve(_ *program, ctx context.Context, inv *invocation) int {
	token := inv.config.HTTPToken.Reveal()
	if token == "" && !webpage.Loopback(inv.listen) {
		return cli.Failed(ctx, inv.log, "serve", fmt.Errorf("%s is no loopback address: set "+
			"LEADER_HTTP_TOKEN, or anybody who reaches it can run commands on the workers", inv.listen))
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", inv.listen)
	if err != nil {
		return cli.Failed(ctx, inv.log, "listen", err)
	}
	s := &jobserver.Server{
		Coordinator: inv.coordinator, Groups: inv.jobs.offered, Token: token,
		Titled: work.Titled, Patience: inv.config.SessionTimeout, Log: inv.log,
	}
	all, err := inv.monitored(ctx, s.Handler(ctx))
	if err != nil {
		_ = l.Close()
		return cli.Failed(ctx, inv.log, "serve", err)
	}
	server := webpage.Server{
		Handler: all, Answer: inv.config.SessionTimeout + downloadTimeout, Grace: stopTimeout,
		Log: inv.log,
	}
	inv.log.Info("serving the page and the HTTP API of jobs", "address", "http://"+l.Addr().String()+
		"/",
		"token", token != "")
	inv.unit.manager.Ready("Serving at " + l.Addr().String())
	if err := server.Serve(ctx, l); err != nil {
		return cli.Failed(ctx, inv.log, "serve", err)
	}
	return cli.Failed(ctx, inv.log, "go on", context.Cause(ctx)) // a signal, which has its exit code
}
