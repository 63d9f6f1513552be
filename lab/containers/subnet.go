package containers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"

	"github.com/moby/moby/client"
)

// freeSubnet finds the first two bytes of addresses that neither the engine's networks nor this
// machine use.
func freeSubnet(ctx context.Context, docker *client.Client) (string, error) {
	taken, err := takenSubnets(ctx, docker)
	if err != nil {
		return "", err
	}
	for _, second := range rand.Perm(128) {
		candidate := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(second + 100)}), 16)
		if !slices.ContainsFunc(taken, candidate.Overlaps) {
			return fmt.Sprintf("10.%d", second+100), nil
		}
	}
	return "", errors.New("no free subnet in 10.100.0.0 to 10.227.0.0: " +
		"remove Docker networks that nobody needs")
}

func takenSubnets(ctx context.Context, docker *client.Client) ([]netip.Prefix, error) {
	networks, err := docker.NetworkList(ctx, client.NetworkListOptions{})
	if err != nil {
		return nil, err
	}
	var all []netip.Prefix
	for _, n := range networks.Items {
		for _, c := range n.IPAM.Config {
			all = append(all, c.Subnet)
		}
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	for _, a := range own {
		// 10.0.0.0/8 would leave nothing to try.
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Bits() > 8 {
			all = append(all, p)
		}
	}
	return all, nil
}
