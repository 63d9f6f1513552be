package scenario

import "strings"

// agentScenarios has the faults of agents, and of the programs whose terms they hold. They are run
// with --path agent.
var agentScenarios = []Scenario{
	{
		Name: "agent-killed", Rows: []int{40},
		About: "The leader's agent is killed: the program sees the end of its stream, and writes on " +
			"until it is refused.",
		Topology: withAgents, Only: Local,
		Faults: []Fault{{Do: Kill, On: "agent of leader", Until: NextLeader}}, Expect: demand,
	},
	{
		Name: "agent-paused", Rows: []int{40},
		About: "The leader's agent is frozen past its session: its program hears nothing, and writes " +
			"until the time that the agent has told last. Then the agent wakes.",
		Topology: withAgents, Only: Local,
		Faults: []Fault{{Do: Pause, On: "agent of leader", Until: NextLeader}}, Expect: demand,
	},
	{
		Name: "agent-restarted", Rows: []int{40},
		About:    "The leader's agent is told to end, gives its terms up, and is started again.",
		Topology: withAgents, Only: Local,
		Faults: []Fault{{Do: Restart, On: "agent of leader", Until: NextLeader}}, Expect: demand,
	},
	{
		Name: "agent-program-killed", Rows: []int{46},
		About:    "The leading program is killed: its agent gives the term up at once.",
		Topology: withAgents, Only: Local,
		Faults: []Fault{{Do: Kill, On: "leader", Until: NextLeader}}, Expect: oneStale,
	},
	{
		Name: "agent-cut-from-coordinator", Rows: []int{46},
		About: "The leader's agent cannot reach the coordinator: it ends the term by its own clock, " +
			"and tells the program.",
		Topology: withAgents, Only: Local,
		Faults: []Fault{{Do: Cut, On: "leader", Link: "coordinator", Until: NextLeader}}, Expect: demand,
	},
}

var withAgents = small.with(func(t *Topology) { t.Agents = true })

// OverAgent returns the scenario on the path agent; false if its workers have to lead by
// themselves, or if they have to report what a store answered to a raise, which the agent does.
func (s Scenario) OverAgent() (Scenario, bool) {
	own := s.Topology.Route == "" && (s.Workload.Kind == "" || s.Workload.Kind == Ledger) &&
		s.Workload.ClockJump == 0
	if !own || len(s.Expect.Refusals) > 0 || s.has(inWorker) {
		return s, false
	}
	s.Topology.Agents, s.Only = true, Local
	return s, true
}

// inWorker reports whether a fault stops a program whose agent goes on: its term goes on as well.
func inWorker(f Fault) bool { return f.Do == Inside || f.Do == Stop }

// AgentOf returns the agent that holds a worker's terms, if the topology has agents.
func AgentOf(worker string) string { return strings.Replace(worker, "worker-", "agent-", 1) }
