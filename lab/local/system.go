package local

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/lab/system"
)

// System is a system.System of processes of this machine.
type System struct {
	build   system.Build
	tag     *tag
	tls     *encryption        // nil: no TLS
	elects  coordinator        // nil until it has started
	pg      *servers.Postgres  // the first server; nil if Patroni runs them
	nodes   []node             // all servers of Postgres
	patroni *servers.Patroni   // nil if there is none
	redis   *servers.Redis     // the primary; with Sentinels the one at first
	replica *servers.Redis     // nil if there is none
	pooler  *servers.PgBouncer // nil unless the workers are on the path SQL
	// sentinels watch Redis; nil if there are none.
	sentinels []*servers.Sentinel
	balancer  *servers.HAProxy  // before the guards beside the nodes of Patroni; or nil
	toPrimary *servers.HAProxy  // before the nodes, then
	beside    besidePorts       // where these guards listen
	secure    map[string]string // the address with TLS of each Redis, by its other address
	guards    map[string]guardAddresses
	links     map[ends][]*Link
	routes    map[string]system.Routes // of workers, by name
	sockets   string                   // the directory of the agents' sockets; "" without agents
	workers   map[string]*worker
	logs      map[string]*logPipe // of guards and workers, with Topology.LogPipes
	// processes has everything that can be hit, by name. Build fills it; nothing changes it later.
	processes map[string]process

	closing  sync.Once
	closeErr error
}

var (
	_ system.System = (*System)(nil)
	_ system.Logs   = (*System)(nil)
	_ system.Locale = (*System)(nil)
)

// process is one of the system's processes, as package servers makes them.
type process interface {
	Start(context.Context) error
	Kill() error
	Stop() error
	Pause() error
	Resume() error
	Close() error
	PID() int
	LogTail(n int) string
}

// ends are the ends of a link: a process, and its peer as Shape names it.
type ends struct{ process, peer string }

// Build starts servers and guards, and prepares the workers for Start. After an error nothing is
// left.
func Build(ctx context.Context, b system.Build) (*System, error) {
	s := &System{
		build: b, guards: map[string]guardAddresses{}, links: map[ends][]*Link{},
		routes: map[string]system.Routes{},
		secure: map[string]string{}, logs: map[string]*logPipe{},
		workers: map[string]*worker{}, processes: map[string]process{},
	}
	if err := s.encrypt(b); err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context) error{
		s.startTag, s.startServers, s.prepareDatabase, s.install, s.startPooler, s.startCopy,
		s.startGuards, s.startBalancer, s.startAgents,
		s.prepareWorkers,
	} {
		if err := step(ctx); err != nil {
			err = fmt.Errorf("build the system: %w", err)
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

func (s *System) startTag(context.Context) (err error) {
	s.tag, err = newTag()
	return err
}

// Addresses implements system.System.
func (s *System) Addresses() system.Addresses {
	guards := map[string]system.GuardAddress{}
	for name, at := range s.guards {
		guards[name] = system.GuardAddress{
			Postgres: s.asApp(at.postgres), Redis: s.tls.redis(at.redis, "0"),
		}
	}
	return system.Addresses{
		Postgres:    s.asSuperuser(database),
		App:         s.asApp(s.primaryAt()),
		Redis:       s.redisPrimary().URL(),
		Coordinator: s.elects.own(),
		Guards:      guards,
	}
}

// Diagnose implements system.System.
func (s *System) Diagnose() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.processes)) {
		fmt.Fprintf(&b, "%s:\n%s\n\n", name, s.processes[name].LogTail(12))
	}
	return b.String()
}

// Close implements system.System. It may be called more than once.
func (s *System) Close() error {
	s.closing.Do(func() { s.closeErr = s.close() })
	return s.closeErr
}

// close ends workers and guards, then the processes that they left behind, then links and servers.
func (s *System) close() error {
	var programs, rest []func() error
	for name, p := range s.processes {
		if _, ok := p.(*servers.Program); ok {
			programs = append(programs, func() error {
				s.expectEnd(name)
				return errors.Join(p.Kill(), p.Close())
			})
			continue
		}
		rest = append(rest, func() error { return errors.Join(s.keepLog(name, p), p.Close()) })
	}
	err := atOnce(programs)
	if s.tag != nil {
		err = errors.Join(err, s.tag.sweep())
	}
	for _, w := range s.workers {
		w.finish()
	}
	for _, l := range s.logs {
		err = errors.Join(err, l.Close())
	}
	for _, all := range s.links {
		for _, l := range all {
			rest = append(rest, l.Close)
		}
	}
	for _, one := range s.sentinels {
		rest = append(rest, one.Close)
	}
	if s.patroni != nil {
		rest = append(rest, s.patroni.Close)
	}
	err = errors.Join(err, atOnce(rest))
	if s.elects != nil {
		err = errors.Join(err, s.elects.close()) // its servers have ended; this removes their directory
	}
	if s.tag != nil {
		s.tag.release()
	}
	if s.sockets != "" {
		err = errors.Join(err, os.RemoveAll(s.sockets))
	}
	return err
}

// keepLog saves the end of a server's log, whose file is removed with the server.
func (s *System) keepLog(name string, p process) error {
	path := filepath.Join(s.build.Dir, name+".log")
	return os.WriteFile(path, []byte(p.LogTail(200)+"\n"), 0o644)
}

// atOnce calls all functions at once and returns all errors.
func atOnce(all []func() error) error {
	errs := make([]error, len(all))
	var group sync.WaitGroup
	for i, do := range all {
		group.Go(func() { errs[i] = do() })
	}
	group.Wait()
	return errors.Join(errs...)
}
