package system

import (
	"maps"
	"strconv"
	"time"

	"github.com/ringfence/ringfence/lab/scenario"
)

// Routes are the URLs that a worker gets.
type Routes struct {
	Coordinator, Postgres, Redis, Raise, Journal, World string
	// the socket of the worker's agent, if it has one
	Agent string
}

// WorkerEnv returns the environment of a worker: worker.Config as variables, and the settings of
// leader run if that runs the worker. It leaves out variables without a value. The failpoint is
// missing if it was used already.
func (b Build) WorkerEnv(name string, to Routes, failpointUsed bool) map[string]string {
	t, w := b.Topology, b.Workload
	env := map[string]string{
		"LAB_NAME": name, "LAB_COORDINATOR": to.Coordinator, "LAB_SESSION": duration(t.Session),
		"LAB_POSTGRES": to.Postgres, "LAB_REDIS": to.Redis, "LAB_RAISE": to.Raise,
		"LAB_JOURNAL": to.Journal, "LAB_WORLD": to.World, "LAB_AGENT": to.Agent,
		"LAB_ROUTE": string(t.Route), "LAB_KIND": string(w.Kind), "LAB_MANNERS": string(w.Manners),
		"LAB_PAUSE": duration(w.Pause), "LAB_HEALTH": duration(w.Health),
		"LAB_STRATEGY": w.Strategy, "LAB_SEED": strconv.FormatUint(b.Seed, 10),
		"LAB_FLAW": w.Flaw, "LAB_CHILD": w.Child, "LAB_CLOCK_JUMP": duration(w.ClockJump),
	}
	if w.Rounds != 0 {
		env["LAB_ROUNDS"] = strconv.FormatInt(w.Rounds, 10)
	}
	if !failpointUsed {
		env["LAB_FAILPOINT"] = w.Failpoints[name]
	}
	if w.Kind == scenario.Commands {
		env["LEADER_COORDINATOR"], env["LEADER_HOLDER"] = to.Coordinator, name
		env["LEADER_SESSION_TIMEOUT"] = duration(t.Session)
		env["LEADER_STORES"] = b.stores(to)
		if t.Route == scenario.Carried {
			// the worker reports it
			env["LEADER_CARRY"], env["LEADER_EXPORT"] = "postgres,redis", "RINGFENCE_TOKEN"
		}
	}
	return withValues(env)
}

// AgentEnv returns the environment of an agent that reaches everything by these routes.
func (b Build) AgentEnv(to Routes) map[string]string {
	return withValues(map[string]string{
		"LEADER_COORDINATOR": to.Coordinator, "LEADER_SESSION_TIMEOUT": duration(b.Topology.Session),
		"LEADER_STORES": b.stores(to),
	})
}

// stores returns the stores on which a mark is raised: none without Ringfence.
func (b Build) stores(to Routes) string {
	if b.Topology.Route == scenario.Direct {
		return ""
	}
	return to.Postgres + "," + to.Redis
}

func withValues(env map[string]string) map[string]string {
	maps.DeleteFunc(env, func(_, value string) bool { return value == "" })
	return env
}

func duration(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}
