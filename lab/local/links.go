package local

import (
	"strings"

	"github.com/ringfence/ringfence/lab"
)

// newLink makes a link of a process to one address of its peer.
func (s *System) newLink(process, peer, to string) (*link, error) {
	l, err := newLink(to, s.build.Seed)
	if err != nil {
		return nil, err
	}
	key := ends{process, peer}
	s.links[key] = append(s.links[key], l)
	return l, nil
}

// linkCoordinator gives a process its own links to the coordinator, and returns their URL.
func (s *System) linkCoordinator(process string) (string, error) {
	var addrs []string
	for _, n := range s.zk.Nodes {
		l, err := s.newLink(process, "coordinator", n.Addr())
		if err != nil {
			return "", err
		}
		addrs = append(addrs, l.Addr())
	}
	return "zk://" + strings.Join(addrs, ",") + root, nil
}

// linkStores gives a guard its links to the databases, or leaves it without.
func (s *System) linkStores(guard string) (to upstreams, err error) {
	if guard == lab.Neighbour {
		return upstreams{s.pg.URL("guard", lab.NeighbourDatabase), "redis://" + s.redis.Addr() + "/1"}, nil
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

// routes are the URLs that a worker gets.
type routes struct{ coordinator, postgres, redis, raise, journal, world string }

// link gives a worker its links: to its guard or, where it goes round the guard, to the databases themselves; and one to
// the database that keeps checkpoints.
func (s *System) link(worker string) (r routes, err error) {
	if r.coordinator, err = s.linkCoordinator(worker); err != nil {
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
		{"guard", postgres, &r.postgres, asApp},
		{"guard", redis, &r.redis, redisURL},
		{"journal", s.pg.Addr(), &r.journal, asApp},
	} {
		l, err := s.newLink(worker, one.peer, one.to)
		if err != nil {
			return r, err
		}
		*one.url = one.form(l.Addr())
		if one.to == postgres && s.build.Topology.Route == lab.Embedded {
			r.raise = postgresURL("guard", l.Addr()) // only a guard's role may raise a mark at the database itself
		}
	}
	r.world = asApp(s.pg.Addr())
	return r, nil
}

func asApp(addr string) string { return postgresURL("app", addr) }

func postgresURL(role, addr string) string {
	return "postgres://" + role + "@" + addr + "/" + database + "?sslmode=disable"
}

func redisURL(addr string) string { return "redis://" + addr + "/0" }
