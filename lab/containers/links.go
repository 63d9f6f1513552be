package containers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	toxiproxy "github.com/Shopify/toxiproxy/v2/client"

	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
)

// The ports of a process's links at toxiproxy, without its number in front (see linkNumber). Those
// of workers are in toxiproxy.json. Those to the coordinator are in allCoordinators.
const (
	postgresPort = 6432
	redisPort    = 7379
	journalPort  = 5432
	worldPort    = 5433
)

func port(number, p int) int { return number*10000 + p }

// linkNumber returns the number of a process that has links, in front of the ports of its links; 0
// if it has none. Guards follow the workers.
func linkNumber(t scenario.Topology, process string) int {
	if n := slices.Index(t.GuardNames(), process) + 1; n > 0 && t.StoreLinks {
		return mostWorkers + n
	}
	return slices.Index(t.WorkerNames(), process) + 1
}

// link is a process's link to a peer, as Shape names it.
type link struct {
	process, peer string
	network       string   // from which a worker can be disconnected; "" if it cannot
	proxies       []string // names at toxiproxy
	ports         []string // of toxiproxy, for the link
	address       string   // of toxiproxy on that network
}

func (s settings) link(t scenario.Topology, process, peer string) (link, error) {
	if l, ok := s.storeLink(t, process, peer); ok {
		return l, nil
	}
	n := linkNumber(t, process)
	l := link{process: process, peer: peer, network: "data", address: s.subnet + ".2.110"}
	add := func(name string, p int) {
		l.proxies = append(l.proxies, process+"."+name)
		l.ports = append(l.ports, strconv.Itoa(port(n, p)))
	}
	switch {
	case n == 0:
	case peer == "coordinator":
		l.network, l.address = "coordination", s.subnet+".1.110"
		if n > mostWorkers {
			l.network = ""
		}
		for i, name := range t.CoordinatorNames() {
			add(name, coordinatorOf(t).link+i)
		}
		return l, nil
	case n > mostWorkers:
	case peer == "guard":
		add("postgres", postgresPort)
		add("redis", redisPort)
		return l, nil
	case peer == "journal":
		add("journal", journalPort)
		return l, nil
	}
	return l, fmt.Errorf("there is no link between %s and %s: workers have links to coordinator, "+
		"guard and journal, with Topology.StoreLinks guards to coordinator, postgres and redis",
		process, peer)
}

// linkWorkers turns the links of all workers to their guards, or to the databases. It creates those
// to the journal, which bypass the guards and so are not in toxiproxy.json.
func (s *System) linkWorkers(ctx context.Context) error {
	t := s.build.Topology
	proxies, err := s.toxiproxy.Proxies()
	if err != nil {
		return err
	}
	for i, worker := range t.WorkerNames() {
		postgres, redis := t.GuardOf(worker)+":6432", t.GuardOf(worker)+":7379"
		if t.Route != scenario.Guarded && t.Route != "" {
			postgres = s.toStore(worker+".postgres", "postgres", port(i+1, postgresPort))
			redis = s.toStore(worker+".redis", "redis", port(i+1, redisPort))
		}
		for name, upstream := range map[string]string{
			worker + ".postgres": postgres, worker + ".redis": redis,
		} {
			p, ok := proxies[name]
			if !ok {
				return fmt.Errorf("toxiproxy has no link %s", name)
			}
			p.Upstream = upstream
			if err := p.Save(); err != nil {
				return fmt.Errorf("toxiproxy does not turn the link %s: %w", name, err)
			}
		}
		if s.build.Workload.Kind != scenario.Tasks {
			continue
		}
		for name, p := range map[string]int{"journal": journalPort, "world": worldPort} {
			listen := fmt.Sprintf("0.0.0.0:%d", port(i+1, p))
			_, err := s.toxiproxy.CreateProxy(worker+"."+name, listen, "postgres:5432")
			if err != nil {
				return fmt.Errorf("toxiproxy does not create the link %s.%s: %w", worker, name, err)
			}
		}
	}
	return s.turn(ctx)
}

// interrupt ends the open connections of a link and makes toxiproxy refuse others, or heals it.
func (s *System) interrupt(l link, before, now system.Shape) error {
	if before.Break == now.Break {
		return nil
	}
	var errs error
	for _, name := range l.proxies {
		p, err := s.toxiproxy.Proxy(name)
		if err == nil {
			p.Enabled = !now.Break
			err = p.Save()
		}
		errs = errors.Join(errs, err)
	}
	return errs
}

// delay sets the delay of each direction of a link, also for open connections.
func (s *System) delay(l link, before, now system.Shape) error {
	if before.Delay == now.Delay {
		return nil
	}
	var errs error
	for _, name := range l.proxies {
		p, err := s.toxiproxy.Proxy(name)
		if err != nil {
			errs = errors.Join(errs, err)
			continue
		}
		for _, direction := range []string{"upstream", "downstream"} {
			errs = errors.Join(errs, setDelay(p, direction, before, now))
		}
	}
	return errs
}

func setDelay(p *toxiproxy.Proxy, direction string, before, now system.Shape) error {
	name, late := "delay_"+direction, toxiproxy.Attributes{"latency": now.Delay.Milliseconds()}
	var err error
	switch {
	case now.Delay == 0:
		err = p.RemoveToxic(name)
	case before.Delay == 0:
		_, err = p.AddToxic(name, "latency", direction, 1, late)
	default:
		_, err = p.UpdateToxic(name, 1, late)
	}
	return err
}
