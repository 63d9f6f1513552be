package containers

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
)

// The services in compose.yaml.
const (
	mostCoordinators = 3
	mostGuards       = 2
	mostWorkers      = 3
)

const (
	database    = "postgres"
	overlayFile = "compose.lab.json"
)

// settings are the choices of one run.
type settings struct {
	project  string
	subnet   string         // the first two bytes of all addresses
	ports    map[string]int // of this machine, by process
	password string
}

func newSettings(subnet string, t scenario.Topology) (settings, error) {
	names := append(t.CoordinatorNames(), "postgres", "redis", "toxiproxy", scenario.Postgres2,
		scenario.Redis2)
	for _, name := range t.AllGuardNames() {
		names = append(names, name, name+"-postgres", name+"-redis")
	}
	free, err := servers.FreePorts(len(names))
	if err != nil {
		return settings{}, err
	}
	s := settings{
		project: "ringfence-lab-" + strings.ToLower(rand.Text()[:8]), subnet: subnet,
		ports: map[string]int{}, password: rand.Text(),
	}
	for i, name := range names {
		s.ports[name] = free[i]
	}
	return s, nil
}

func checkTopology(t scenario.Topology) error {
	if t.Cluster != "" || t.Sentinels {
		return errors.New("stores that fail over run without containers only")
	}
	if (t.Replica || t.Copy) && !t.StoreLinks {
		return errors.New("a replica or a copy needs links to stores")
	}
	servers := len(t.CoordinatorNames())
	if servers > mostCoordinators || t.Guards > mostGuards || t.Workers > mostWorkers {
		return fmt.Errorf("the topology needs %d servers of the coordinator, %d guards and "+
			"%d workers; compose.yaml has %d, %d and %d", servers, t.Guards, t.Workers,
			mostCoordinators, mostGuards, mostWorkers)
	}
	return nil
}

// variables returns the variables of compose.yaml.
func (s settings) variables(b system.Build) []string {
	t := b.Topology
	env := []string{
		"SUBNET=" + s.subnet, "COMPOSE_PROFILES=",
		"POSTGRES_PASSWORD=" + s.password, "GUARD_PASSWORD=" + s.password,
		"APP_PASSWORD=" + s.password, "ELECTIONS_PASSWORD=" + s.password,
		"ZOO_TICK_TIME=" + strconv.FormatInt(t.TickTime().Milliseconds(), 10),
		"REDIS_FSYNC=" + t.RedisFsync,
		"LAB_LOG=", "LAB_SESSION=" + cmp.Or(t.Session, time.Second).String(),
		"LAB_PAUSE=" + cmp.Or(b.Workload.Pause, 5*time.Millisecond).String(),
		"WORKER_LOG_SIZE=100g", // the history is read from the log, which must not be cut
		// The lab probes servers itself, and health checks pile up while a container is paused.
		"HEALTH_INTERVAL=24h",
		"GUARD_TARGET=" + target(t),
	}
	var args []string
	for _, setting := range t.PGSettings {
		args = append(args, "-c "+setting)
	}
	env = append(env, "POSTGRES_ARGS="+strings.Join(args, " "))
	for name, port := range s.ports {
		variable := strings.ToUpper(strings.ReplaceAll(name, "-", "_")) + "_PORT"
		env = append(env, fmt.Sprintf("%s=%d", variable, port))
	}
	return env
}

func target(t scenario.Topology) string {
	if t.GuardFlaw != "" {
		return flawedGuard
	}
	return soundGuard
}

// service is the change of one service.
type service struct {
	Entrypoint  []string            `json:"entrypoint,omitempty"`
	Environment map[string]string   `json:"environment,omitempty"`
	Ports       []string            `json:"ports,omitempty"` // in addition to those of compose.yaml
	Networks    map[string]endpoint `json:"networks,omitempty"`
}

// endpoint is a service's connection to a network.
type endpoint struct {
	Address string `json:"ipv4_address,omitempty"`
}

// changes are how the next containers differ from those that Build creates.
type changes struct {
	failpointUsed map[string]bool // workers, which no longer have their failpoint
	joins         map[string]bool // servers of the coordinator, which join the others
}

// overlay returns the changes of compose.yaml that have no variable.
func (s settings) overlay(b system.Build, now changes) map[string]service {
	services := map[string]service{"install": {Environment: map[string]string{}}}
	guards := b.Topology.AllGuardNames()
	for _, name := range guards {
		services[name] = s.guard(b.Topology, name)
	}
	for _, name := range append(guards, "install") {
		services[name].Environment["GUARD_COORDINATOR"] = s.guardCoordinator(b.Topology, name)
	}
	for i, name := range b.Topology.WorkerNames() {
		services[name] = s.worker(b, name, i+1, now.failpointUsed[name])
	}
	c, servers := coordinatorOf(b.Topology), b.Topology.CoordinatorNames()
	if variable, value := c.alone[0], c.alone[1]; len(servers) == 1 && variable != "" {
		services[servers[0]] = service{Environment: map[string]string{
			variable: fmt.Sprintf(value, s.coordinatorHost(c, 0)),
		}}
	}
	for name := range now.joins {
		services[name] = service{Environment: map[string]string{c.joins[0]: c.joins[1]}}
	}
	if b.Topology.StoreLinks {
		for name := range storeHosts {
			at := endpoint{s.storeAddress(name)}
			services[name] = service{Networks: map[string]endpoint{"control": at}}
		}
	}
	return services
}

// guard returns the settings of a guard. The lab reaches it where its clients do.
func (s settings) guard(t scenario.Topology, name string) service {
	env := map[string]string{}
	for _, setting := range t.GuardSettings {
		key, value, _ := strings.Cut(setting, "=")
		env[key] = value
	}
	if t.GuardFlaw != "" {
		env["FLAW"] = t.GuardFlaw
	}
	if l, ok := s.storeLink(t, name, "postgres"); ok {
		env["GUARD_POSTGRES_UPSTREAM"] = fmt.Sprintf("postgres://guard:${GUARD_PASSWORD}@%s:%s/%s",
			l.address, l.ports[0], database)
	}
	if l, ok := s.storeLink(t, name, "redis"); ok {
		env["GUARD_REDIS_UPSTREAM"] = fmt.Sprintf("redis://%s:%s/0", l.address, l.ports[0])
	}
	return service{Environment: env, Ports: []string{
		fmt.Sprintf("127.0.0.1:%d:6432", s.ports[name+"-postgres"]),
		fmt.Sprintf("127.0.0.1:%d:7379", s.ports[name+"-redis"]),
	}}
}

// worker returns the settings of worker n. The password stays a variable, and out of the file.
func (s settings) worker(b system.Build, name string, n int, failpointUsed bool) service {
	postgres := func(p int) string {
		return fmt.Sprintf("postgres://app:${APP_PASSWORD}@%s.2.110:%d/%s?sslmode=disable",
			s.subnet, port(n, p), database)
	}
	to := system.Routes{
		Coordinator: s.linkedCoordinator(b.Topology, n),
		Postgres:    postgres(postgresPort),
		Redis:       fmt.Sprintf("redis://%s.2.110:%d/0", s.subnet, port(n, redisPort)),
	}
	if b.Workload.Kind == scenario.Tasks {
		to.Journal, to.World = postgres(journalPort), postgres(worldPort)
	}
	if b.Topology.Route == scenario.Embedded {
		// Only a guard's role may raise a mark at the database itself.
		to.Raise = strings.Replace(to.Postgres, "app:${APP_PASSWORD}", "guard:${GUARD_PASSWORD}", 1)
	}
	return service{
		Environment: b.WorkerEnv(name, to, failpointUsed),
		Entrypoint:  b.Workload.WorkerCommand("/leader", "/worker"),
	}
}

// writeOverlay writes the overlay into the run's directory, where people can read it, and returns
// its path.
func (s settings) writeOverlay(b system.Build, now changes) (string, error) {
	all := map[string]any{"services": s.overlay(b, now)}
	if b.Topology.StoreLinks {
		all["networks"] = map[string]any{"control": s.controlNetwork()}
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return "", err
	}
	path, err := filepath.Abs(filepath.Join(b.Dir, overlayFile))
	if err != nil {
		return "", err
	}
	return path, os.WriteFile(path, append(text, '\n'), 0o644)
}

// writeOverlay writes the overlay again, with the changes until now. The caller holds s.making.
func (s *System) writeOverlay() error {
	_, err := s.settings.writeOverlay(s.build, s.changes)
	return err
}
