package local

import (
	"strings"

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

// newLinks makes a link to each address of a peer, and returns their addresses.
func (s *System) newLinks(process, peer string, to []string) (addrs []string, err error) {
	for _, address := range to {
		l, err := s.newLink(process, peer, address)
		if err != nil {
			return nil, err
		}
		addrs = append(addrs, l.Addr())
	}
	return addrs, nil
}

// linkCoordinator gives a process links to the coordinator, and returns their URL.
func (s *System) linkCoordinator(process string) (string, error) {
	legs := s.elects.legs()
	if s.pooler != nil {
		legs = []string{s.pooler.Addr()}
	}
	addrs, err := s.newLinks(process, "coordinator", legs)
	if err != nil {
		return "", err
	}
	if s.build.Topology.Route == scenario.SQL {
		return s.asApp(strings.Join(addrs, ",")), nil
	}
	return s.elects.url(addrs), nil
}

// linkStores gives a guard links to the databases, if the topology has them.
func (s *System) linkStores(guard string) (to upstreams, err error) {
	if guard == scenario.Neighbour {
		postgres := s.tls.postgres("guard", s.postgresAt(), scenario.NeighbourDatabase)
		return upstreams{postgres, s.tls.redis(s.redisAt(), "1")}, nil
	}
	switch t := s.build.Topology; {
	case t.Beside:
		return s.upstreams(s.besideNode(guard).Addr(), s.redisAt()), nil
	case !t.StoreLinks:
		return s.upstreams(s.postgresAt(), s.redisAt()), nil
	}
	pg, err := s.newLink(guard, "postgres", s.postgresAt())
	if err != nil {
		return to, err
	}
	redis, err := s.newLink(guard, "redis", s.redisAt())
	if err != nil {
		return to, err
	}
	return s.upstreams(pg.Addr(), redis.Addr()), nil
}

// upstreams are the databases for a guard that reaches them at these addresses.
func (s *System) upstreams(postgres, redis string) upstreams {
	to := upstreams{s.tls.postgres("guard", postgres, database), s.tls.redis(redis, "0")}
	if s.sentinels != nil {
		to.redis = "redis+sentinel://" + s.sentinelHosts() + "/" + sentinelName
	}
	return to
}

// redisAt is where guards and workers reach the first server of Redis.
func (s *System) redisAt() string { return s.leg(s.redis.Addr()) }

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
	postgres, redis := s.postgresLegs(), s.redisAt()
	t := s.build.Topology
	if t.Route == scenario.Guarded || t.Route == scenario.Carried || t.Route == "" {
		g := s.guards[t.GuardOf(worker)]
		redis = g.redis
		switch {
		case s.balancer != nil:
			postgres = []string{s.balancer.Addr()}
		case !t.DirectSessions:
			postgres = []string{g.postgres}
		}
	} else if s.pooler != nil {
		postgres = []string{s.pooler.Addr()}
	}
	for _, one := range []struct {
		peer string
		to   []string
		url  *string
		form func(string) string
	}{
		{"guard", postgres, &r.Postgres, s.asApp},
		{"guard", []string{redis}, &r.Redis, s.asRedis},
		{"journal", s.postgresLegs(), &r.Journal, s.asApp},
	} {
		addrs, err := s.newLinks(worker, one.peer, one.to)
		if err != nil {
			return r, err
		}
		*one.url = one.form(strings.Join(addrs, ","))
		if one.url == &r.Postgres && (t.Route == scenario.Embedded || t.DirectSessions) {
			// Only a guard's role may raise a mark at the database itself.
			r.Raise = s.tls.postgres("guard", strings.Join(addrs, ","), database)
		}
	}
	r.World = s.asApp(s.postgresAt())
	return r, nil
}

func (s *System) asApp(addr string) string { return s.tls.postgres("app", addr, database) }

func (s *System) asRedis(addr string) string { return s.tls.redis(addr, "0") }
