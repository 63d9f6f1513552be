package local

import (
	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
)

// newLink makes a link from a process to one address of its peer.
func (s *System) newLink(process, peer, to string) (*Link, error) {
	l, err := NewLink(to, s.build.Seed)
	if err != nil {
		return nil, err
	}
	key := ends{process, peer}
	s.links[key] = append(s.links[key], l)
	return l, nil
}

// linkCoordinator gives a process links to the coordinator, and returns their URL.
func (s *System) linkCoordinator(process string) (string, error) {
	var addrs []string
	legs := s.elects.legs()
	if s.pooler != nil {
		legs = []string{s.pooler.Addr()}
	}
	for _, address := range legs {
		l, err := s.newLink(process, "coordinator", address)
		if err != nil {
			return "", err
		}
		addrs = append(addrs, l.Addr())
	}
	if s.pooler != nil {
		return s.asApp(addrs[0]), nil
	}
	return s.elects.url(addrs), nil
}

// linkStores gives a guard links to the databases, if the topology has them.
func (s *System) linkStores(guard string) (to upstreams, err error) {
	if guard == scenario.Neighbour {
		postgres := s.tls.postgres("guard", s.pg.Addr(), scenario.NeighbourDatabase)
		return upstreams{postgres, s.tls.redis(s.leg(s.redis.Addr()), "1")}, nil
	}
	if !s.build.Topology.StoreLinks {
		return s.upstreams(s.pg.Addr(), s.leg(s.redis.Addr())), nil
	}
	pg, err := s.newLink(guard, "postgres", s.pg.Addr())
	if err != nil {
		return to, err
	}
	redis, err := s.newLink(guard, "redis", s.leg(s.redis.Addr()))
	if err != nil {
		return to, err
	}
	return s.upstreams(pg.Addr(), redis.Addr()), nil
}

// upstreams are the databases for a guard that reaches them at these addresses.
func (s *System) upstreams(postgres, redis string) upstreams {
	return upstreams{s.tls.postgres("guard", postgres, database), s.tls.redis(redis, "0")}
}

// leg returns the address of a server for guards and workers.
func (s *System) leg(address string) string {
	if secure, ok := s.secure[address]; ok {
		return secure
	}
	return address
}

// linked returns the routes of a worker, which are made once.
func (s *System) linked(worker string) (system.Routes, error) {
	if r, ok := s.routes[worker]; ok {
		return r, nil
	}
	r, err := s.link(worker)
	r.Agent = s.socketOf(worker)
	s.routes[worker] = r
	return r, err
}

// link gives a worker links to its guard or, if it bypasses the guard, to the databases themselves;
// and one to the database that keeps checkpoints.
func (s *System) link(worker string) (r system.Routes, err error) {
	if r.Coordinator, err = s.linkCoordinator(worker); err != nil {
		return r, err
	}
	postgres, redis := s.pg.Addr(), s.leg(s.redis.Addr())
	if route := s.build.Topology.Route; route == scenario.Guarded || route == scenario.Carried ||
		route == "" {
		g := s.guards[s.build.Topology.GuardOf(worker)]
		postgres, redis = g.postgres, g.redis
	} else if route == scenario.SQL {
		postgres = s.pooler.Addr()
	}
	for _, one := range []struct {
		peer, to string
		url      *string
		form     func(string) string
	}{
		{"guard", postgres, &r.Postgres, s.asApp},
		{"guard", redis, &r.Redis, s.asRedis},
		{"journal", s.pg.Addr(), &r.Journal, s.asApp},
	} {
		l, err := s.newLink(worker, one.peer, one.to)
		if err != nil {
			return r, err
		}
		*one.url = one.form(l.Addr())
		if one.to == postgres && s.build.Topology.Route == scenario.Embedded {
			// Only a guard's role may raise a mark at the database itself.
			r.Raise = s.tls.postgres("guard", l.Addr(), database)
		}
	}
	r.World = s.asApp(s.pg.Addr())
	return r, nil
}

func (s *System) asApp(addr string) string { return s.tls.postgres("app", addr, database) }

func (s *System) asRedis(addr string) string { return s.tls.redis(addr, "0") }
