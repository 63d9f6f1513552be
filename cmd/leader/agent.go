package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/cmd/internal/systemd"
	"github.com/ringfence/ringfence/cmd/internal/webpage"
	"github.com/ringfence/ringfence/cmd/leader/internal/agent"
	"github.com/ringfence/ringfence/cmd/leader/internal/carrier"
	"github.com/ringfence/ringfence/cmd/leader/internal/stores"
)

const agentSocket = agent.UnixPrefix + "/run/ringfence/agent.sock"

const agentHelp = `Hold terms for programs of this machine, which ask by HTTP, until interrupted.

A program asks for a resource by POST /v1/terms, and reads the answer line by line: that it waits,
that it leads and how it presents the token, that its term is lost. The term ends with the answer:
when the program closes it, or ends. Marks are raised on LEADER_STORES before it is told that it leads.
With LEADER_CARRY the agent listens for each term, for programs that cannot present a token.
GET /openapi.yaml describes all calls.

On a Unix socket only processes of its owner, and of root, are answered; on a loopback address, who
sends LEADER_HTTP_TOKEN as Authorization: Bearer TOKEN.
`

func (p *program) agentCommand() *cobra.Command {
	inv := &invocation{}
	c := &cobra.Command{
		Use: "agent", Args: inv.ofAgent,
		Short: "Hold terms for programs of this machine, which ask by HTTP, until interrupted",
		Long:  agentHelp, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: p.doing(inv, action{
			uses: []string{useStores, useCarrier, useToken}, run: runAgent, lasts: true,
		}),
	}
	c.Flags().StringVar(&inv.listen, "listen", agentSocket, "`ADDRESS` of the API: unix:PATH, or a "+
		"loopback address with LEADER_HTTP_TOKEN")
	return c
}

// ofAgent checks the arguments of agent.
func (inv *invocation) ofAgent(_ *cobra.Command, args []string) error {
	switch {
	case len(args) > 0:
		return errors.New("agent takes no argument: a program names its resource when it stands for " +
			"election")
	case strings.HasPrefix(inv.listen, agent.UnixPrefix),
		strings.HasPrefix(inv.listen, agent.SystemdPrefix):
		return nil
	}
	if _, _, err := net.SplitHostPort(inv.listen); err != nil {
		return fmt.Errorf("--listen: %q is neither unix:PATH, systemd:NAME nor an address such as "+
			"127.0.0.1:8481: %w", inv.listen, err)
	}
	return nil
}

// openAgent listens where the API may be served.
func (inv *invocation) openAgent(
	ctx context.Context, sockets *systemd.Sockets,
) (_ *agent.Listener, err error) {
	if slices.ContainsFunc(inv.config.Carry, carrier.Address.Fixed) {
		return nil, errors.New("LEADER_CARRY: an agent has many terms, each at an address of its own: " +
			"name none")
	}
	l, err := agent.Listen(ctx, inv.listen, sockets, inv.log)
	if err != nil {
		return nil, err
	}
	switch at := l.Addr().String(); {
	case l.Trusted:
		return l, nil
	case !webpage.Loopback(at):
		err = fmt.Errorf("%s is no loopback address: the agent holds terms for programs of its own "+
			"machine", at)
	case inv.config.HTTPToken.Reveal() == "":
		err = fmt.Errorf("set LEADER_HTTP_TOKEN, or listen on unix:PATH: every user of this machine "+
			"reaches %s", at)
	default:
		return l, nil
	}
	return nil, errors.Join(err, l.Close())
}

// runAgent serves the API of terms until ctx ends.
func runAgent(p *program, ctx context.Context, inv *invocation) int {
	sockets, err := systemd.Inherited(p.Env)
	if err != nil {
		return cli.Failed(ctx, inv.log, "take over the sockets of the service manager", err)
	}
	defer sockets.Close()
	l, err := inv.openAgent(ctx, sockets)
	if err != nil {
		return cli.Failed(ctx, inv.log, "listen", err)
	}
	raisers := p.stores.Raisers(inv.config.Stores, inv.coordinator, inv.config.RaiseTimeout)
	defer stores.Close(raisers)
	a := &agent.Agent{
		Coordinator: inv.coordinator, Holder: inv.config.Holder, Stores: raisers, Table: p.stores,
		URLs: inv.config.Stores, Carry: inv.config.Carry, Raise: inv.config.RaiseTimeout,
		Session: inv.config.SessionTimeout, User: l.User,
		Log: inv.log,
	}
	if !l.Trusted {
		a.Token = inv.config.HTTPToken.Reveal()
	}
	defer context.AfterFunc(ctx, a.Close)()
	server := webpage.Server{
		Handler: a.Handler(), Answer: inv.config.SessionTimeout + downloadTimeout, Grace: stopTimeout,
		Log:         inv.log,
		Connections: agent.MaxStreams + webpage.MaxConnections, Keeps: true, Connected: agent.Connected,
	}
	if len(raisers) == 0 {
		inv.log.Warn("LEADER_STORES is empty: programs that name no stores lead without a raised mark, " +
			"get no pass for ringfence.enter, and older sessions go on, until a guard admits one of theirs")
	}
	inv.log.Info("serving terms", "address", l.Addr().String())
	inv.unit.manager.Ready("Serving at " + l.Addr().String())
	err = server.Serve(ctx, l)
	a.Close()
	if err != nil {
		return cli.Failed(ctx, inv.log, "serve", err)
	}
	return cli.Failed(ctx, inv.log, "go on", context.Cause(ctx)) // a signal, which has its exit code
}
