package local

import (
	"github.com/ringfence/ringfence/lab"
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
	for _, address := range s.elects.addresses() {
		l, err := s.newLink(process, "coordinator", address)
		if err != nil {
			return "", err
		}
		addrs = append(addrs, l.Addr())
	}
	return s.elects.url(addrs), nil
}

// linkStores gives a guard links to the databases, if the topology has them.
func (s *System) linkStores(guard string) (to upstreams, err error) {
	if guard == lab.Neighbour {
		postgres := s.pg.URL("guard", lab.NeighbourDatabase)
		return upstreams{postgres, "redis://" + s.redis.Addr() + "/1"}, nil
	}
	if !s.build.Topology.StoreLinks {
		return upstreams{s.pg.URL("guard", database), s.redis.URL()}, nil
	}
	pg, err := s.newLink(guard, "postgres", s.pg.Addr())
	if err != nil {
		return to, err
	}
	redis, err := s.newLink(guard, "redis", s.redis.Addr())
	if err != nil {
		return to, err
	}
	return upstreams{postgresURL("guard", pg.Addr()), redisURL(redis.Addr())}, nil
}

// link gives a worker links to its guard or, if it bypasses the guard, to the databases themselves;
// and one to the database that keeps checkpoints.
func (s *System) link(worker string) (r lab.Routes, err error) {
	if r.Coordinator, err = s.linkCoordinator(worker); err != nil {
		return r, err
	}
	postgres, redis := s.pg.Addr(), s.redis.Addr()
	if route := s.build.Topology.Route; route == lab.Guarded || route == "" {
		g := s.guards[s.build.Topology.GuardOf(worker)]
		postgres, redis = g.postgres, g.redis
	}
	for _, one := range []struct {
		peer, to string
		url      *string
		form     func(string) string
	}{
		{"guard", postgres, &r.Postgres, asApp},
		{"guard", redis, &r.Redis, redisURL},
		{"journal", s.pg.Addr(), &r.Journal, asApp},
	} {
		l, err := s.newLink(worker, one.peer, one.to)
		if err != nil {
			return r, err
		}
		*one.url = one.form(l.Addr())
		if one.to == postgres && s.build.Topology.Route == lab.Embedded {
			// Only a guard's role may raise a mark at the database itself.
			r.Raise = postgresURL("guard", l.Addr())
		}
	}
	r.World = asApp(s.pg.Addr())
	return r, nil
}

func asApp(addr string) string { return postgresURL("app", addr) }

func postgresURL(role, addr string) string {
	return "postgres://" + role + "@" + addr + "/" + database + "?sslmode=disable"
}

func redisURL(addr string) string { return "redis://" + addr + "/0" }
