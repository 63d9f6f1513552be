package redismarks

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
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
// left names the sessions that may still live, because their server was not reached: it is down,
// it was restarted, it is a primary of its own, or it does not let the guard in. The mark is
// raised all the same, and the raise forgets their records. So leave.lua copies these before, and
// each later raise, of any resource, tries again. A process that stops before the copy leaves the
// records where the next raise finds them. One that stops before the raise leaves them twice. One
// that stops after it has ended sessions leaves records of none. Each costs another try and no
// more.
func (s *Store) endElsewhere(ctx context.Context, r fence.Resource) (left string, err error) {
	keys := []string{key(r), leftKey}
	found, err := s.eval(ctx, leftScript, keys)
	if err != nil {
		return "", err
	}
	run, ids, sessions := parseLeft(found)
	if len(sessions) == 0 {
		return "", nil
	}
	reach, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	reached, failed := s.endAt(reach, sessions)
	if ctx.Err() != nil {
		return "", fmt.Errorf("older sessions at other servers may still live: %w", failed)
	}
	var ended []any
	for run := range reached {
		for _, id := range sessions[run] {
			ended = append(ended, run+":"+text(id))
		}
	}
	if _, err := s.eval(ctx, leaveScript, keys, ended...); err != nil {
		return "", err
	}
	if len(ids) > 0 && !reached[run] {
		left = fmt.Sprintf("clients %s at run %s of Redis: %v", list(ids), run, failed)
	}
	return left, nil
}

// parseLeft reads the answer of left.lua: the run and the clients that the resource has recorded,
// and the clients of every run.
func parseLeft(answer reply) (run string, ids []any, sessions map[string][]any) {
	sessions = make(map[string][]any)
	if len(answer) < 4 {
		return "", nil, sessions
	}
	run = text(answer[1])
	ids, _ = answer[2].([]any)
	if len(ids) > 0 {
		sessions[run] = slices.Clone(ids)
	}
	records, _ := answer[3].([]any)
	for _, record := range records {
		of, id, _ := strings.Cut(text(record), ":")
		sessions[of] = append(sessions[of], id)
	}
	return run, ids, sessions
}

// endAt looks for the servers of these runs among the replicas, level by level, and ends the
// clients there. It returns the runs that it has reached, and why others were not.
func (s *Store) endAt(
	ctx context.Context, sessions map[string][]any,
) (reached map[string]bool, failed error) {
	reached = make(map[string]bool)
	info, err := s.db.Info(ctx, "replication").Result()
	if err != nil {
		return reached, err
	}
	failed = errUnlisted
	level, seen := replicasIn(info), make(map[string]bool)
	for len(level) > 0 && len(seen) < maxServers && len(reached) < len(sessions) {
		var next []string
		for _, at := range s.lookAt(ctx, level, sessions) {
			seen[at.address] = true
			switch {
			case at.err != nil:
				failed = at.err
			case at.ended != "":
				reached[at.ended] = true
			}
			next = append(next, at.replicas...)
		}
		level = slices.DeleteFunc(next, func(address string) bool { return seen[address] })
	}
	return reached, failed
}

// replica is what was found at the address of one.
type replica struct {
	address  string
	ended    string   // the run of the server, if the sessions there have ended
	replicas []string // of its own
	err      error
}

// lookAt looks at several servers at once.
func (s *Store) lookAt(
	ctx context.Context, addresses []string, sessions map[string][]any,
) []replica {
	all := make([]replica, len(addresses))
	var looks sync.WaitGroup
	for i, address := range addresses {
		looks.Go(func() {
			all[i] = s.look(ctx, address, sessions)
			if all[i].err != nil {
				all[i].err = fmt.Errorf("the replica %s: %w", address, all[i].err)
			}
		})
	}
	looks.Wait()
	return all
}

// look ends the clients of the run that the server at the address is.
func (s *Store) look(
	ctx context.Context, address string, sessions map[string][]any,
) (at replica) {
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
	run := runID(server.Val())
	if ids := sessions[run]; len(ids) > 0 {
		at.ended, at.err = run, killAll(ctx, db, run, ids, stillThere)
	}
	return at
}

// replica makes a client of another server, which logs in as the store does.
func (s *Store) replica(address string) (*driver.Client, error) {
	t, err := control(s.address, s.o, func(context.Context, *driver.Conn) error { return nil })
	if err != nil {
		return nil, err
	}
	t.opt.Network, t.opt.Addr, t.opt.MaxRetries = "tcp", address, -1
	t.opt.Dialer = dialer(t.opt, s.o.Timeouts) // no other server, whichever is the primary
	return driver.NewClient(t.opt), nil
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
