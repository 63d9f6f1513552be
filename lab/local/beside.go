package local

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/lab/system"
)

// The guards beside the nodes listen on these ports of the nodes' hosts: HAProxy asks all at one.
type besidePorts struct{ postgres, redis, http int }

// startBalancer starts HAProxy before the guards beside the nodes. It asks Patroni and the guard,
// as docs/patroni.md has it.
func (s *System) startBalancer(ctx context.Context) (err error) {
	t := s.build.Topology
	if !t.Beside {
		return nil
	}
	var guards []string
	for _, name := range t.GuardNames() {
		guards = append(guards, s.guards[name].postgres)
	}
	s.balancer, err = s.startHAProxy(ctx, "haproxy", "fall 3", guards, servers.HAProxyCheck{
		Method: "GET", Path: "/readyz", Port: fmt.Sprint(s.beside.http),
	})
	return err
}

// startElectionsBalancer starts HAProxy before Postgres, for elections there. It asks Patroni.
func (s *System) startElectionsBalancer(ctx context.Context) (err error) {
	s.toPrimary, err = s.startHAProxy(ctx, "haproxy-elections", "fall 1", s.postgresLegs())
	if err != nil {
		return err
	}
	return s.awaitChecks(ctx)
}

// awaitChecks waits until HAProxy leads to the primary only. When it starts, it uses each server in
// turn until the first checks have failed.
func (s *System) awaitChecks(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	url := s.tls.postgres("postgres", s.toPrimary.Addr(), database) + "&target_session_attrs=primary"
	for connected := 0; connected < 2*len(s.nodes); connected++ {
		if err := system.Exec(ctx, url); err != nil {
			if system.Sleep(ctx, lookAgain) != nil {
				return fmt.Errorf("HAProxy leads to a standby: %w", err)
			}
			connected = -1 // from the first one again
		}
	}
	return nil
}

// startHAProxy starts one that asks Patroni which node is the primary, and then for more.
func (s *System) startHAProxy(
	ctx context.Context, name, fall string, to []string, more ...servers.HAProxyCheck,
) (*servers.HAProxy, error) {
	_, api, err := net.SplitHostPort(s.patroni.Nodes[0].API())
	if err != nil {
		return nil, err
	}
	isPrimary := servers.HAProxyCheck{Method: "OPTIONS", Path: "/primary", Port: api}
	h, err := servers.StartHAProxy(ctx, "", servers.HAProxyOptions{
		Servers: to, Every: "inter 1s rise 1 " + fall,
		Checks: append([]servers.HAProxyCheck{isPrimary}, more...),
	})
	if err == nil {
		s.processes[name] = h
	}
	return h, err
}

// listenBeside returns where a guard listens that stands beside a node.
func (s *System) listenBeside(name string) (guardAddresses, error) {
	if s.beside == (besidePorts{}) {
		free, err := servers.FreePorts(3)
		if err != nil {
			return guardAddresses{}, err
		}
		s.beside = besidePorts{free[0], free[1], free[2]}
	}
	n := s.besideNode(name)
	at := func(port int) string { return net.JoinHostPort(n.Host, fmt.Sprint(port)) }
	return guardAddresses{at(s.beside.postgres), at(s.beside.redis), at(s.beside.http)}, nil
}

// besideNode returns the node of a guard: the first one has the first node.
func (s *System) besideNode(guard string) *servers.PatroniNode {
	for i, name := range s.build.Topology.GuardNames() {
		if name == guard {
			return s.patroni.Nodes[i]
		}
	}
	return nil
}
