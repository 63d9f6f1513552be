package containers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ringfence/ringfence/lab"
)

// storePorts are what the databases listen on.
var storePorts = map[string]int{"postgres": 5432, "redis": 6379}

// storeHosts are the last bytes of addresses on the network control, which links to stores need to be fixed.
var storeHosts = map[string]int{"postgres": 101, lab.Postgres2: 102, "redis": 103, lab.Redis2: 104, "toxiproxy": 110}

// storeAddress is where a database, or toxiproxy, is reached on the network control.
func (s settings) storeAddress(name string) string {
	return fmt.Sprintf("%s.3.%d", s.subnet, storeHosts[name])
}

// storeLink is a guard's link to a store; false when it has none.
func (s settings) storeLink(t lab.Topology, guard, store string) (link, bool) {
	n := slices.Index(t.GuardNames(), guard) + 1
	p, ok := map[string]int{"postgres": postgresPort, "redis": redisPort}[store]
	return link{
		process: guard, peer: store, address: s.storeAddress("toxiproxy"),
		proxies: []string{guard + "." + store}, ports: []string{strconv.Itoa(port(mostWorkers+n, p))},
	}, t.StoreLinks && n > 0 && ok
}

// destination is where new connections over a link to a store lead.
type destination struct {
	port   int // that toxiproxy takes the link on
	server string
}

// toStore is what toxiproxy connects to for a link to a store. A link that can be turned has a port of its own there, which
// nobody listens on: a rule in toxiproxy's network says which server it is (see turn).
func (s *System) toStore(proxy, store string, port int) string {
	if !s.build.Topology.StoreLinks {
		return fmt.Sprintf("%s:%d", store, storePorts[store])
	}
	s.destinations[proxy] = destination{port, store}
	return fmt.Sprintf("%s:%d", s.settings.storeAddress(store), port)
}

// layStores makes the links of guards to the databases.
func (s *System) layStores(ctx context.Context) error {
	for _, guard := range s.build.Topology.GuardNames() {
		for store := range storePorts {
			l, ok := s.settings.storeLink(s.build.Topology, guard, store)
			if !ok {
				continue
			}
			at, err := strconv.Atoi(l.ports[0])
			if err != nil {
				return err
			}
			if _, err := s.toxiproxy.CreateProxy(l.proxies[0], "0.0.0.0:"+l.ports[0], s.toStore(l.proxies[0], store, at)); err != nil {
				return fmt.Errorf("toxiproxy does not make the link %s: %w", l.proxies[0], err)
			}
		}
	}
	return s.turn(ctx)
}

// turn makes new connections go where destinations says, all at one moment. Open ones stay where they are: the kernel tracks
// them, and the rule matches the first packet of a connection alone.
func (s *System) turn(ctx context.Context) error {
	if len(s.destinations) == 0 {
		return nil
	}
	if said, err := s.netfault(ctx, "toxiproxy", s.settings.turnScript(s.destinations)); err != nil {
		return fmt.Errorf("links to the databases cannot be turned: %w: %s", err, strings.TrimSpace(said))
	}
	return nil
}

func (s settings) turnScript(destinations map[string]destination) string {
	var b strings.Builder
	b.WriteString("set -e\niptables-restore -w --noflush <<END\n*nat\n:lab-turn - [0:0]\n")
	for _, proxy := range slices.Sorted(maps.Keys(destinations)) {
		l := destinations[proxy]
		store := lab.StoreOf(l.server)
		fmt.Fprintf(&b, "-A lab-turn -d %s -p tcp --syn --dport %d -j DNAT --to-destination %s:%d\n",
			s.storeAddress(store), l.port, s.storeAddress(l.server), storePorts[store])
	}
	b.WriteString("COMMIT\nEND\niptables -w -t nat -C OUTPUT -j lab-turn 2>/dev/null || iptables -w -t nat -A OUTPUT -j lab-turn\n")
	return b.String()
}

// Turn is lab.System's.
func (s *System) Turn(ctx context.Context, guard, server string) error {
	s.shaping.Lock()
	defer s.shaping.Unlock()
	proxy := guard + "." + lab.StoreOf(server)
	l, ok := s.destinations[proxy]
	if !ok || s.id(server) == "" {
		return fmt.Errorf("no link of %s can lead to %s: Topology has StoreLinks, and Copy or Replica", guard, server)
	}
	s.destinations[proxy] = destination{l.port, server}
	return s.turn(ctx)
}

// SwitchOver is lab.System's.
func (s *System) SwitchOver(ctx context.Context) error {
	if !s.build.Topology.Replica {
		return errors.New("there is no replica of Redis")
	}
	from, to := s.redisPrimary(), lab.Redis2
	if from == to {
		to = "redis"
	}
	replica := fmt.Sprintf("%s:%d", s.settings.storeAddress(to), storePorts["redis"])
	if err := lab.FailOver(ctx, s.settings.host(from), replica, s.settings.host(to)); err != nil {
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

// redisPrimary is the server that Redis's clients are meant to reach.
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
	if err := s.copyPostgres(ctx); err != nil {
		return err
	}
	return s.startFromCopy(ctx, lab.Postgres2)
}

// controlNetwork is the network control with addresses that can be fixed.
func (s settings) controlNetwork() any {
	type config struct {
		Subnet string `json:"subnet"`
	}
	type ipam struct {
		Config []config `json:"config"`
	}
	return map[string]ipam{"ipam": {[]config{{s.subnet + ".3.0/24"}}}}
}
