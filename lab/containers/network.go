package containers

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
)

// findNetworks learns the ids of the project's networks, by their names in compose.yaml.
func (s *System) findNetworks(ctx context.Context) error {
	found, err := s.docker.NetworkList(ctx, client.NetworkListOptions{Filters: s.ours()})
	if err != nil {
		return err
	}
	for _, n := range found.Items {
		s.networks[n.Labels["com.docker.compose.network"]] = n.ID
	}
	return nil
}

// ours matches everything that belongs to the project.
func (s *System) ours() client.Filters {
	return make(client.Filters).Add("label", projectLabel+"="+s.settings.project)
}

// leave disconnects a worker from a network.
func (s *System) leave(ctx context.Context, worker, name string) error {
	_, err := s.docker.NetworkDisconnect(ctx, s.networks[name],
		client.NetworkDisconnectOptions{Container: s.id(worker)})
	if err != nil {
		return fmt.Errorf("%s cannot be disconnected from the network %s: %w", worker, name, err)
	}
	return nil
}

// join connects it again, at its address in compose.yaml, so that open connections continue.
func (s *System) join(ctx context.Context, worker, name string) error {
	address, err := s.settings.address(worker, name)
	if err != nil {
		return err
	}
	_, err = s.docker.NetworkConnect(ctx, s.networks[name], client.NetworkConnectOptions{
		Container: s.id(worker),
		EndpointConfig: &network.EndpointSettings{
			IPAMConfig: &network.EndpointIPAMConfig{IPv4Address: address},
			Aliases:    []string{worker},
		},
	})
	if err != nil {
		return fmt.Errorf("%s cannot be connected to the network %s: %w", worker, name, err)
	}
	return nil
}

// joinAll connects a worker to the networks that it is not on yet: docker-compose 1.29 connects
// only the first before its own start.
func (s *System) joinAll(ctx context.Context, worker string) error {
	now, err := s.docker.ContainerInspect(ctx, s.id(worker), client.ContainerInspectOptions{})
	if err != nil {
		return err
	}
	for _, name := range []string{"coordination", "data"} {
		if _, on := now.Container.NetworkSettings.Networks[s.settings.project+"_"+name]; on {
			continue
		}
		if err := s.join(ctx, worker, name); err != nil {
			return err
		}
	}
	return nil
}

// address returns a worker's address on a network in compose.yaml.
func (s settings) address(worker, name string) (netip.Addr, error) {
	third := map[string]int{"coordination": 1, "data": 2}[name]
	_, number, _ := strings.Cut(worker, "-")
	return netip.ParseAddr(fmt.Sprintf("%s.%d.12%s", s.subnet, third, number))
}
