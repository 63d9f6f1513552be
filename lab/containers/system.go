package containers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	toxiproxy "github.com/Shopify/toxiproxy/v2/client"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
)

// The labels that the compose program sets.
const (
	projectLabel = "com.docker.compose.project"
	serviceLabel = "com.docker.compose.service"
)

// System is a system.System of containers.
type System struct {
	build     system.Build
	settings  settings
	docker    *client.Client
	compose   *compose
	log       *os.File
	toxiproxy *toxiproxy.Client // answers at once: no fault hits it
	networks  map[string]string // ids, by their names in compose.yaml
	followers *followers
	copies    map[string]diskCopy // by service

	mu      sync.Mutex
	ids     map[string]string // of containers, by service
	primary string            // redis or redis-2

	making  sync.Mutex
	changes changes

	shaping      sync.Mutex
	shapes       map[ends]system.Shape
	destinations map[string]destination // of links that can be turned, by their names at toxiproxy

	closing  sync.Once
	closeErr error
}

var _ system.System = (*System)(nil)

// Build builds the images if they are not up to date, starts servers and guards, and creates the
// workers for Start. After an error nothing is left.
func Build(ctx context.Context, b system.Build) (*System, error) {
	if err := checkTopology(b.Topology); err != nil {
		return nil, err
	}
	s, err := prepare(ctx, b)
	if err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context) error{
		s.makeImages, s.startServers, s.install, s.startCopy, s.linkGuards, s.startGuards,
		s.makeWorkers,
	} {
		if err := step(ctx); err != nil {
			err = fmt.Errorf("build the system: %w", err)
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// prepare makes the choices of a run, and starts nothing.
func prepare(ctx context.Context, b system.Build) (_ *System, err error) {
	s := &System{
		build: b, networks: map[string]string{}, ids: map[string]string{},
		changes:      changes{failpointUsed: map[string]bool{}, joins: map[string]bool{}},
		shapes:       map[ends]system.Shape{},
		destinations: map[string]destination{}, copies: map[string]diskCopy{},
		primary: "redis",
	}
	program, err := findCompose(ctx)
	if err != nil {
		return nil, err
	}
	root, err := findRoot()
	if err != nil {
		return nil, err
	}
	if s.docker, err = dial(ctx); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.docker.Close())
		}
	}()
	subnet, err := freeSubnet(ctx, s.docker)
	if err != nil {
		return nil, err
	}
	if s.settings, err = newSettings(subnet, b.Topology); err != nil {
		return nil, err
	}
	overlay, err := s.settings.writeOverlay(b, changes{})
	if err != nil {
		return nil, err
	}
	if s.log, err = os.Create(filepath.Join(b.Dir, "compose.log")); err != nil {
		return nil, err
	}
	s.compose = &compose{
		program: program, root: root, files: append(coordinatorOf(b.Topology).files(root), overlay),
		project: s.settings.project, env: s.settings.variables(b), log: s.log,
	}
	s.toxiproxy = toxiproxy.NewClient(s.settings.host("toxiproxy"))
	s.followers = newFollowers(s.docker, b.Events)
	return s, nil
}

func (s *System) makeImages(ctx context.Context) error {
	t := s.build.Topology
	return s.compose.images(ctx, target(t), coordinatorOf(t))
}

// up starts services without those that they depend on: the lab itself waits for each.
func (s *System) up(ctx context.Context, services ...string) error {
	return s.composeUp(ctx, "-d", services)
}

// make creates containers as the overlay has them, in place of older ones, and starts none.
func (s *System) make(ctx context.Context, services ...string) error {
	return s.composeUp(ctx, "--no-start", services)
}

func (s *System) composeUp(ctx context.Context, flag string, services []string) error {
	up := []string{"up", flag, "--no-deps", "--no-build"}
	if _, err := s.compose.run(ctx, append(up, services...)...); err != nil {
		return err
	}
	return s.findContainers(ctx)
}

func (s *System) startServers(ctx context.Context) error {
	servers := append(primaries(s.build.Topology), "postgres", "redis", "toxiproxy")
	if s.build.Topology.Replica {
		servers = append(servers, scenario.Redis2)
	}
	if err := s.up(ctx, servers...); err != nil {
		return err
	}
	if err := s.findNetworks(ctx); err != nil {
		return err
	}
	if err := s.allReady(ctx, servers); err != nil {
		return err
	}
	return s.startStandby(ctx)
}

// install creates roles, tables, and what guards need in the databases.
func (s *System) install(ctx context.Context) error {
	if _, err := s.once(ctx, "schema"); err != nil {
		return err
	}
	if _, err := s.Operator(ctx, "install"); err != nil || !s.build.Topology.Neighbour {
		return err
	}
	return s.installNeighbour(ctx)
}

// installNeighbour creates the neighbour's database, and what its guard needs there.
func (s *System) installNeighbour(ctx context.Context) error {
	create := "create database " + scenario.NeighbourDatabase
	if err := system.Exec(ctx, s.Addresses().Postgres, create); err != nil {
		return err
	}
	_, err := s.once(ctx, scenario.Neighbour, "install")
	return err
}

func (s *System) startGuards(ctx context.Context) error {
	all := s.build.Topology.AllGuardNames()
	if err := s.up(ctx, all...); err != nil {
		return err
	}
	return s.allReady(ctx, all)
}

func (s *System) makeWorkers(ctx context.Context) error {
	if err := s.linkWorkers(ctx); err != nil {
		return err
	}
	return s.makeWorker(ctx, s.build.Topology.WorkerNames()...)
}

// makeWorker creates workers and connects them to their networks.
func (s *System) makeWorker(ctx context.Context, names ...string) error {
	if err := s.make(ctx, names...); err != nil {
		return err
	}
	for _, name := range names {
		if err := s.joinAll(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// once runs a service that ends by itself, with arguments instead of compose.yaml's if there are
// any. It reaches the present primary of Redis.
func (s *System) once(ctx context.Context, service string, args ...string) (string, error) {
	run := []string{"run", "--rm", "--no-deps", "-T"}
	if now := s.redisPrimary(); now != "redis" {
		run = append(run, "-e", "GUARD_REDIS_UPSTREAM=redis://"+now+":6379/0")
	}
	return s.compose.run(ctx, append(append(run, service), args...)...)
}

// Operator implements system.System.
func (s *System) Operator(ctx context.Context, args ...string) (string, error) {
	return s.once(ctx, "install", args...)
}

// containers lists the project's containers.
func (s *System) containers(ctx context.Context) ([]container.Summary, error) {
	options := client.ContainerListOptions{All: true, Filters: s.ours()}
	found, err := s.docker.ContainerList(ctx, options)
	return found.Items, err
}

// findContainers learns the ids of the project's containers.
func (s *System) findContainers(ctx context.Context) error {
	found, err := s.containers(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range found {
		service := c.Labels[serviceLabel]
		if service != "" && c.Labels["com.docker.compose.oneoff"] != "True" {
			s.ids[service] = c.ID
		}
	}
	return nil
}

// forget forgets a container that was removed.
func (s *System) forget(service string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ids, service)
}

// id returns the id of a container; "" if there is none.
func (s *System) id(service string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ids[service]
}

// Addresses implements system.System.
func (s *System) Addresses() system.Addresses {
	guards := map[string]system.GuardAddress{}
	for _, name := range s.build.Topology.AllGuardNames() {
		guards[name] = system.GuardAddress{
			Postgres: s.settings.postgresURL("app", name+"-postgres"),
			Redis:    s.settings.redisURL(name + "-redis"),
		}
	}
	return system.Addresses{
		Postgres:    s.settings.postgresURL("postgres", "postgres"),
		App:         s.settings.postgresURL("app", "postgres"),
		Redis:       s.settings.redisURL(s.redisPrimary()),
		Coordinator: s.settings.coordinatorURL(s.build.Topology),
		Guards:      guards,
	}
}

func (s settings) postgresURL(role, at string) string {
	return fmt.Sprintf("postgres://%s:%s@%s/%s?sslmode=disable",
		role, s.password, s.host(at), database)
}

func (s settings) redisURL(at string) string { return "redis://" + s.host(at) + "/0" }

// host returns the address of a server on this machine.
func (s settings) host(process string) string {
	return fmt.Sprintf("127.0.0.1:%d", s.ports[process])
}
