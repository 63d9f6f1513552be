package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/internal/leader/agent"
	"github.com/ringfence/ringfence/internal/leader/carrier"
	"github.com/ringfence/ringfence/internal/leader/stores"
	"github.com/ringfence/ringfence/internal/program/cli"
	"github.com/ringfence/ringfence/internal/program/webpage"
)

const agentSocket = "unix:/run/ringfence/agent.sock"

func (r *request) agentFlags(f *flag.FlagSet) {
	f.StringVar(&r.listen, "listen", agentSocket, "`ADDRESS` of the API: unix:PATH, or a loopback address with LEADER_HTTP_TOKEN (default "+
		agentSocket+")")
}

// parseAgent reads the arguments of agent.
func (c command) parseAgent(names []string, dashed bool, r *request) error {
	switch {
	case dashed || len(names) > 0:
		return fmt.Errorf("%s takes no argument: a program names its resource when it stands for election", c.name)
	case strings.HasPrefix(r.listen, "unix:"):
		return nil
	}
	if _, _, err := net.SplitHostPort(r.listen); err != nil {
		return fmt.Errorf("--listen: %q is neither unix:PATH nor an address such as 127.0.0.1:8481: %w", r.listen, err)
	}
	return nil
}

// checkAgent returns why the API must not be served at this address.
func (inv *invocation) checkAgent() error {
	if slices.ContainsFunc(inv.config.Carry, carrier.Address.Fixed) {
		return errors.New("LEADER_CARRY: an agent has many terms, each at an address of its own: name none")
	}
	switch {
	case strings.HasPrefix(inv.listen, "unix:"):
		return nil
	case !webpage.Loopback(inv.listen):
		return fmt.Errorf("%s is no loopback address: the agent holds terms for programs of its own machine", inv.listen)
	case inv.config.HTTPToken.Reveal() == "":
		return errors.New("set LEADER_HTTP_TOKEN, or listen on unix:PATH: every user of this machine reaches " + inv.listen)
	}
	return nil
}

// runAgent serves the API of terms until ctx ends.
func runAgent(p *program, ctx context.Context, inv *invocation) int {
	if err := inv.checkAgent(); err != nil {
		return cli.Failed(ctx, inv.log, "serve", err)
	}
	l, err := agent.Listen(ctx, inv.listen, inv.log)
	if err != nil {
		return cli.Failed(ctx, inv.log, "listen", err)
	}
	raisers := p.stores.Raisers(inv.config.Stores, inv.coordinator, inv.config.RaiseTimeout)
	defer stores.Close(raisers)
	a := &agent.Agent{
		Coordinator: inv.coordinator, Holder: inv.config.Holder, Stores: raisers, Table: p.stores,
		URLs: inv.config.Stores, Carry: inv.config.Carry, Raise: inv.config.RaiseTimeout, Session: inv.config.SessionTimeout, Log: inv.log,
	}
	if !strings.HasPrefix(inv.listen, "unix:") {
		a.Token = inv.config.HTTPToken.Reveal()
	}
	defer context.AfterFunc(ctx, a.Close)()
	server := webpage.Server{
		Handler: a.Handler(), Answer: inv.config.SessionTimeout + downloadTimeout, Grace: stopTimeout, Log: inv.log,
		Connections: agent.MaxStreams + webpage.MaxConnections, Keeps: true,
	}
	inv.log.Info("serving terms", "address", inv.listen)
	err = server.Serve(ctx, l)
	a.Close()
	if err != nil {
		return cli.Failed(ctx, inv.log, "serve", err)
	}
	return cli.Failed(ctx, inv.log, "go on", context.Cause(ctx)) // a signal, which has its exit code
}
