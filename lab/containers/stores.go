package containers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
)

// storePorts are the ports of the databases.
var storePorts = map[string]int{"postgres": 5432, "redis": 6379}

// storeHosts are the last bytes of addresses on the network control. Links to stores need fixed
// addresses.
var storeHosts = map[string]int{
	"postgres": 101, scenario.Postgres2: 102, "redis": 103, scenario.Redis2: 104, "toxiproxy": 110,
}

// storeAddress returns the address of a database, or toxiproxy, on the network control.
func (s settings) storeAddress(name string) string {
	return fmt.Sprintf("%s.3.%d", s.subnet, storeHosts[name])
}

// storeLink returns a guard's link to a store; false if it has none.
func (s settings) storeLink(t scenario.Topology, guard, store string) (link, bool) {
	n := linkNumber(t, guard)
	p, ok := map[string]int{"postgres": postgresPort, "redis": redisPort}[store]
	return link{
		process: guard, peer: store, address: s.storeAddress("toxiproxy"),
		proxies: []string{guard + "." + store},
		ports:   []string{strconv.Itoa(port(n, p))},
	}, n > mostWorkers && ok
}

// destination is where new connections over a link to a store lead.
type destination struct {
	port   int // of toxiproxy, for the link
	server string
}

// toStore returns what toxiproxy connects to for a link to a store. A link that can be turned has a
// separate port, on which nobody listens: a rule in toxiproxy's network says which server it is
// (see turn).
func (s *System) toStore(proxy, store string, port int) string {
	if !s.build.Topology.StoreLinks {
		return fmt.Sprintf("%s:%d", store, storePorts[store])
	}
	s.destinations[proxy] = destination{port, store}
	return fmt.Sprintf("%s:%d", s.settings.storeAddress(store), port)
}

// linkGuards creates the links of guards to the coordinator and the databases.
func (s *System) linkGuards(ctx context.Context) error {
	for _, guard := range s.build.Topology.GuardNames() {
		if linkNumber(s.build.Topology, guard) == 0 {
			continue
		}
		if err := s.linkCoordinator(guard); err != nil {
			return err
		}
		for store := range storePorts {
			l, ok := s.settings.storeLink(s.build.Topology, guard, store)
			if !ok {
				continue
			}
			name, port := l.proxies[0], l.ports[0]
			number, err := strconv.Atoi(port)
			if err != nil {
				return err
			}
			_, err = s.toxiproxy.CreateProxy(name, "0.0.0.0:"+port, s.toStore(name, store, number))
			if err != nil {
				return fmt.Errorf("toxiproxy does not create the link %s: %w", name, err)
			}
		}
	}
	return s.turn(ctx)
}

// linkCoordinator creates the links of a guard to the coordinator's servers.
func (s *System) linkCoordinator(guard string) error {
	l, err := s.settings.link(s.build.Topology, guard, "coordinator")
	if err != nil {
		return err
	}
	c := coordinatorOf(s.build.Topology)
	for i, server := range s.build.Topology.CoordinatorNames() {
		to := fmt.Sprintf("%s:%d", server, c.port)
		if _, err := s.toxiproxy.CreateProxy(l.proxies[i], "0.0.0.0:"+l.ports[i], to); err != nil {
			return fmt.Errorf("toxiproxy does not create the link %s: %w", l.proxies[i], err)
		}
	}
	return nil
}

// turn turns new connections to their destinations, atomically. Open ones stay where they are: the
// kernel tracks them, and the rule matches only the first packet of a connection.
func (s *System) turn(ctx context.Context) error {
	if len(s.destinations) == 0 {
		return nil
	}
	out, err := s.netfault(ctx, "toxiproxy", s.settings.turnScript(s.destinations))
	if err != nil {
		return fmt.Errorf("links to the databases cannot be turned: %w: %s", err,
			strings.TrimSpace(out))
	}
	return nil
}

func (s settings) turnScript(destinations map[string]destination) string {
	var b strings.Builder
	b.WriteString("set -e\niptables-restore -w --noflush <<END\n*nat\n:lab-turn - [0:0]\n")
	for _, proxy := range slices.Sorted(maps.Keys(destinations)) {
		l := destinations[proxy]
		store := scenario.StoreOf(l.server)
		fmt.Fprintf(&b,
			"-A lab-turn -d %s -p tcp --syn --dport %d -j DNAT --to-destination %s:%d\n",
			s.storeAddress(store), l.port, s.storeAddress(l.server), storePorts[store])
	}
	b.WriteString("COMMIT\nEND\niptables -w -t nat -C OUTPUT -j lab-turn 2>/dev/null || " +
		"iptables -w -t nat -A OUTPUT -j lab-turn\n")
	return b.String()
}

// Turn implements system.System.
func (s *System) Turn(ctx context.Context, guard, server string) error {
	s.shaping.Lock()
	defer s.shaping.Unlock()
	proxy := guard + "." + scenario.StoreOf(server)
	l, ok := s.destinations[proxy]
	if !ok || s.id(server) == "" {
		return fmt.Errorf(
			"no link of %s can lead to %s: Topology has StoreLinks, and Copy or Replica",
			guard, server)
	}
	s.destinations[proxy] = destination{l.port, server}
	return s.turn(ctx)
}

// SwitchOver implements system.System.
func (s *System) SwitchOver(ctx context.Context) error {
	if !s.build.Topology.Replica {
		return errors.New("there is no replica of Redis")
	}
	from, to := s.redisPrimary(), scenario.Redis2
	if from == to {
		to = "redis"
	}
	replica := fmt.Sprintf("%s:%d", s.settings.storeAddress(to), storePorts["redis"])
	err := system.FailOver(ctx, s.settings.host(from), replica, s.settings.host(to))
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.primary = to
	s.mu.Unlock()
	s.shaping.Lock()
	defer s.shaping.Unlock()
	for proxy, l := range s.destinations {
		if l.server == from {
			s.destinations[proxy] = destination{l.port, to}
		}
	}
	return s.turn(ctx)
}

// redisPrimary returns the server that clients of Redis should reach.
func (s *System) redisPrimary() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.primary
}

// startCopy starts the second Postgres, if there is one.
func (s *System) startCopy(ctx context.Context) error {
	if !s.build.Topology.Copy {
		return nil
	}
	copies, err := s.copyOut(ctx, s.disksOf("postgres"))
	if err != nil {
		return err
	}
	return s.startFrom(ctx, map[string]diskCopy{scenario.Postgres2: copies["postgres"]})
}

// controlNetwork defines the network control so that addresses can be fixed.
func (s settings) controlNetwork() any {
	type config struct {
		Subnet string `json:"subnet"`
	}
	type ipam struct {
		Config []config `json:"config"`
	}
	return map[string]ipam{"ipam": {[]config{{s.subnet + ".3.0/24"}}}}
}
