package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
)

const (
	// reachTime limits the search for a former primary. It delays a take-over after a crash.
	reachTime = time.Second
	// maxServers limits how many replicas, and replicas of replicas, are looked at.
	maxServers = 32
)

// errUnlisted: no replica of this server, and none of its replicas, is of that run.
var errUnlisted = errors.New("it is not among the replicas of this server")

// endElsewhere ends the recorded sessions of a resource that belong to another run: a failover has
// brought their records here, and their connections are still at the former primary. If that is a
// replica of this server now, it could be promoted again. So they end before the mark is raised, or
// a promotion in between would find the mark there and the sessions, too.
//
// left names the sessions that may still live, because their server was not reached: it is down, it
// was restarted, it is a primary of its own, or it does not let the guard in.
func (s *Store) endElsewhere(ctx context.Context, r fence.Resource) (left string, err error) {
	found, err := s.run(ctx, leftScript, []string{key(r)})
	if err != nil || len(found.list) < 3 {
		return "", err
	}
	run, ids := text(found.list[1]), found.list[2:]
	reach, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	err = s.endAt(reach, run, ids)
	switch {
	case err == nil:
		return "", nil
	case ctx.Err() != nil:
		return "", fmt.Errorf("the older sessions at run %s of Redis may still live: %w", run, err)
	}
	return fmt.Sprintf("clients %s at run %s of Redis: %v", list(ids), run, err), nil
}

// endAt looks for the server of this run among the replicas, level by level, and ends clients there.
func (s *Store) endAt(ctx context.Context, run string, ids []any) error {
	info, err := s.db.Info(ctx, "replication").Result()
	if err != nil {
		return err
	}
	failed := errUnlisted
	level, seen := replicasIn(info), make(map[string]bool)
	for len(level) > 0 && len(seen) < maxServers {
		var next []string
		for _, at := range s.lookAt(ctx, level, run, ids) {
			seen[at.address] = true
			switch {
			case at.err != nil:
				failed = at.err
			case at.found:
				return nil
			}
			next = append(next, at.replicas...)
		}
		level = nil
		for _, address := range next {
			if !seen[address] {
				level = append(level, address)
			}
		}
	}
	return failed
}

// replica is what was found at the address of one.
type replica struct {
	address  string
	found    bool     // it is the server that was looked for, and the sessions there have ended
	replicas []string // of its own
	err      error
}

// lookAt looks at several servers at once.
func (s *Store) lookAt(ctx context.Context, addresses []string, run string, ids []any) []replica {
	all := make([]replica, len(addresses))
	var looks sync.WaitGroup
	for i, address := range addresses {
		looks.Go(func() {
			all[i] = s.look(ctx, address, run, ids)
			if all[i].err != nil {
				all[i].err = fmt.Errorf("the replica %s: %w", address, all[i].err)
			}
		})
	}
	looks.Wait()
	return all
}

// look ends the clients if the server at the address is of this run.
func (s *Store) look(ctx context.Context, address, run string, ids []any) (at replica) {
	at.address = address
	db, err := s.replica(address)
	if err != nil {
		return replica{address: address, err: err}
	}
	defer db.Close()
	p := db.Pipeline()
	server, replication := p.Info(ctx, "server"), p.Info(ctx, "replication")
	if _, at.err = p.Exec(ctx); at.err != nil {
		return at
	}
	at.replicas = replicasIn(replication.Val())
	if runID(server.Val()) == run {
		at.err = killAll(ctx, db, run, ids, stillThere)
		at.found = at.err == nil
	}
	return at
}

// replica makes a client of another server, which logs in as the store does.
func (s *Store) replica(address string) (*driver.Client, error) {
	opt, err := controlOptions(s.address, s.o, func(context.Context, *driver.Conn) error { return nil })
	if err != nil {
		return nil, err
	}
	opt.Network, opt.Addr, opt.MaxRetries = "tcp", address, -1
	return driver.NewClient(opt), nil
}

// replicasIn returns the addresses of the replicas in INFO replication.
func replicasIn(info string) (addresses []string) {
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if !strings.HasPrefix(name, "slave") || !strings.HasPrefix(value, "ip=") {
			continue
		}
		fields := make(map[string]string)
		for field := range strings.SplitSeq(value, ",") {
			k, v, _ := strings.Cut(field, "=")
			fields[k] = v
		}
		addresses = append(addresses, net.JoinHostPort(fields["ip"], fields["port"]))
	}
	return addresses
}
