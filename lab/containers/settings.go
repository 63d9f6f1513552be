package containers

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/ringfence/ringfence/internal/servers"
	"github.com/ringfence/ringfence/lab"
)

// What compose.yaml has.
const (
	mostZooKeepers = 3
	mostGuards     = 2
	mostWorkers    = 3
)

const (
	database = "postgres"
	// noCoordinator as Topology.Coordinator leaves the guards without one.
	noCoordinator = "none"
	overlayFile   = "compose.lab.json"
)

// settings are what one run chooses.
type settings struct {
	project  string
	subnet   string         // the first two bytes of all addresses
	ports    map[string]int // of this machine, by process
	password string
}

func newSettings(subnet string, t lab.Topology) (settings, error) {
	names := append(t.ZooKeeperNames(), "postgres", "redis", "toxiproxy", lab.Postgres2, lab.Redis2)
	for _, name := range guardNames(t) {
		names = append(names, name, name+"-postgres", name+"-redis")
	}
	free, err := servers.FreePorts(len(names))
	if err != nil {
		return settings{}, err
	}
	s := settings{
		project: "ringfence-lab-" + strings.ToLower(rand.Text()[:8]), subnet: subnet, ports: map[string]int{}, password: rand.Text(),
	}
	for i, name := range names {
		s.ports[name] = free[i]
	}
	return s, nil
}

// guardNames are all guards, the neighbour's too.
func guardNames(t lab.Topology) []string {
	all := t.GuardNames()
	if t.Neighbour {
		all = append(all, lab.Neighbour)
	}
	return all
}

func checkTopology(t lab.Topology) error {
	if (t.Replica || t.Copy) && !t.StoreLinks {
		return errors.New("a replica or a copy is nothing without links to stores")
	}
	if t.ZooKeepers > mostZooKeepers || t.Guards > mostGuards || t.Workers > mostWorkers {
		return fmt.Errorf("compose.yaml has %d ZooKeepers, %d guards and %d workers; %d, %d and %d were asked for",
			mostZooKeepers, mostGuards, mostWorkers, t.ZooKeepers, t.Guards, t.Workers)
	}
	return nil
}

// variables are those of compose.yaml.
func (s settings) variables(b lab.Build) []string {
	t := b.Topology
	env := []string{
		"SUBNET=" + s.subnet, "COMPOSE_PROFILES=",
		"POSTGRES_PASSWORD=" + s.password, "GUARD_PASSWORD=" + s.password, "APP_PASSWORD=" + s.password,
		"ZOO_TICK_TIME=" + strconv.FormatInt(t.TickTime().Milliseconds(), 10),
		"REDIS_FSYNC=" + t.RedisFsync,
		"LAB_LOG=", "LAB_SESSION=" + orDefault(t.Session, time.Second).String(), "LAB_PAUSE=" + orDefault(b.Workload.Pause, 5*time.Millisecond).String(),
		"WORKER_LOG_SIZE=100g", // the history is read from the log: it must not be cut
		"HEALTH_INTERVAL=24h",  // the lab asks the servers itself, and health checks pile up while a container is paused
		"GUARD_TARGET=" + target(t),
	}
	var args []string
	for _, setting := range t.PGSettings {
		args = append(args, "-c "+setting)
	}
	env = append(env, "POSTGRES_ARGS="+strings.Join(args, " "))
	for name, port := range s.ports {
		env = append(env, fmt.Sprintf("%s_PORT=%d", strings.ToUpper(strings.ReplaceAll(name, "-", "_")), port))
	}
	return env
}

func target(t lab.Topology) string {
	if t.GuardFlaw != "" {
		return flawedGuard
	}
	return soundGuard
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}

// service is what a run changes of one service.
type service struct {
	Entrypoint  []string            `json:"entrypoint,omitempty"`
	Environment map[string]string   `json:"environment,omitempty"`
	Ports       []string            `json:"ports,omitempty"` // besides those of compose.yaml
	Networks    map[string]endpoint `json:"networks,omitempty"`
}

// endpoint is a service's on a network.
type endpoint struct {
	Address string `json:"ipv4_address,omitempty"`
}

// overlay is what a run changes of compose.yaml where a variable would not do. A worker whose failpoint was passed already
// is in spent.
func (s settings) overlay(b lab.Build, spent map[string]bool) map[string]service {
	services := map[string]service{"install": {Environment: map[string]string{}}}
	for _, name := range guardNames(b.Topology) {
		services[name] = s.guard(b.Topology, name)
	}
	for _, name := range append(guardNames(b.Topology), "install") {
		services[name].Environment["GUARD_COORDINATOR"] = s.guardCoordinator(b.Topology)
	}
	for i, name := range b.Topology.WorkerNames() {
		services[name] = s.worker(b, name, i+1, spent[name])
	}
	if b.Topology.ZooKeepers <= 1 {
		services["zookeeper-1"] = service{Environment: map[string]string{"ZOO_SERVERS": "server.1=" + s.subnet + ".1.101:2888:3888;2181"}}
	}
	if b.Topology.StoreLinks {
		for name := range storeHosts {
			services[name] = service{Networks: map[string]endpoint{"control": {s.storeAddress(name)}}}
		}
	}
	return services
}

// guard is what a guard is told. The lab reaches it where its clients do.
func (s settings) guard(t lab.Topology, name string) service {
	env := map[string]string{}
	for _, setting := range t.GuardSettings {
		key, value, _ := strings.Cut(setting, "=")
		env[key] = value
	}
	if t.GuardFlaw != "" {
		env["FLAW"] = t.GuardFlaw
	}
	if l, ok := s.storeLink(t, name, "postgres"); ok {
		env["GUARD_POSTGRES_UPSTREAM"] = fmt.Sprintf("postgres://guard:${GUARD_PASSWORD}@%s:%s/%s", l.address, l.ports[0], database)
	}
	if l, ok := s.storeLink(t, name, "redis"); ok {
		env["GUARD_REDIS_UPSTREAM"] = fmt.Sprintf("redis://%s:%s/0", l.address, l.ports[0])
	}
	return service{Environment: env, Ports: []string{
		fmt.Sprintf("127.0.0.1:%d:6432", s.ports[name+"-postgres"]), fmt.Sprintf("127.0.0.1:%d:7379", s.ports[name+"-redis"]),
	}}
}

func (s settings) guardCoordinator(t lab.Topology) string {
	if t.Coordinator == noCoordinator {
		return ""
	}
	var all []string
	for i := range t.ZooKeeperNames() {
		all = append(all, fmt.Sprintf("%s.1.%d:2181", s.subnet, 101+i))
	}
	return "zk://" + strings.Join(all, ",") + "/ringfence"
}

// worker is what worker n is told. The password stays a variable, and out of the file.
func (s settings) worker(b lab.Build, name string, n int, spent bool) service {
	w, t := b.Workload, b.Topology
	var coordinators []string
	for i := range t.ZooKeeperNames() {
		coordinators = append(coordinators, fmt.Sprintf("%s.1.110:%d", s.subnet, port(n, coordinatorPort+i)))
	}
	at := func(p int) string {
		return fmt.Sprintf("postgres://app:${APP_PASSWORD}@%s.2.110:%d/%s?sslmode=disable", s.subnet, port(n, p), database)
	}
	postgres, redis := at(postgresPort), fmt.Sprintf("redis://%s.2.110:%d/0", s.subnet, port(n, redisPort))
	env := map[string]string{
		"LAB_COORDINATOR": "zk://" + strings.Join(coordinators, ",") + "/ringfence",
		"LAB_POSTGRES":    postgres, "LAB_REDIS": redis, "LAB_ROUTE": string(t.Route), "LAB_KIND": string(w.Kind),
		"LAB_MANNERS": string(w.Manners), "LAB_FLAW": w.Flaw, "LAB_CHILD": w.Child,
		"LAB_HEALTH": lasting(w.Health), "LAB_CLOCK_JUMP": lasting(w.ClockJump),
	}
	if w.Rounds != 0 {
		env["LAB_ROUNDS"] = strconv.FormatInt(w.Rounds, 10)
	}
	if w.Kind == lab.Tasks {
		env["LAB_JOURNAL"], env["LAB_WORLD"] = at(journalPort), at(worldPort)
	}
	if t.Route == lab.Embedded { // only a guard's role may raise a mark at the database itself
		env["LAB_RAISE"] = strings.Replace(postgres, "app:${APP_PASSWORD}", "guard:${GUARD_PASSWORD}", 1)
	}
	if !spent {
		env["LAB_FAILPOINT"] = w.Failpoints[name]
	}
	maps.DeleteFunc(env, func(_, value string) bool { return value == "" })
	if w.Kind != lab.Commands {
		return service{Environment: env}
	}
	env["LEADER_COORDINATOR"], env["LEADER_HOLDER"], env["LEADER_SESSION_TIMEOUT"] = env["LAB_COORDINATOR"], name, lasting(t.Session)
	if t.Route != lab.Direct {
		env["LEADER_STORES"] = postgres + "," + redis
	}
	return service{Environment: env, Entrypoint: []string{"/leader", "run", lab.Resource, "--", "/worker"}}
}

func lasting(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// writeOverlay leaves the overlay in the run's directory, where people can read it, and returns its path.
func (s settings) writeOverlay(b lab.Build, spent map[string]bool) (string, error) {
	all := map[string]any{"services": s.overlay(b, spent)}
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
