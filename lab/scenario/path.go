package scenario

import "slices"

// Path is a way in which workers lead and write, other than the one that a scenario has by itself.
type Path struct {
	Name  string
	About string
	// Over returns the scenario on the path; false if it cannot be run there, for the reason in Lacks.
	Over  func(Scenario) (Scenario, bool)
	Lacks string
}

// Paths lists the paths.
var Paths = []Path{
	{
		"sql", "through PgBouncer to Postgres, with the functions of docs/sql.md and no guard",
		Scenario.OverSQL,
		"it needs a guard, a coordinator or Redis",
	},
	{
		"carrier", "children of leader run that know no token, through LEADER_CARRY",
		Scenario.OverCarrier,
		"its workers lead by themselves",
	},
	{
		"direct", "straight to Postgres 17 or later, which admits sessions itself (docs/direct.md)",
		Scenario.OverDirect,
		"its faults are of a guard, or need one",
	},
	{
		"agent", "terms by the stream of leader agent; each worker has an agent of its own",
		Scenario.OverAgent,
		"its workers lead without an agent, or its faults are inside a worker",
	},
}

// FindPath returns the path of a name.
func FindPath(name string) (Path, bool) {
	for _, p := range Paths {
		if p.Name == name {
			return p, true
		}
	}
	return Path{}, false
}

// Path returns the path without which the scenario cannot be run; "" if there is none.
func (s Scenario) Path() string {
	switch {
	case s.Topology.Route == SQL:
		return "sql"
	case s.Topology.Route == Carried:
		return "carrier"
	case s.Topology.DirectSessions:
		return "direct"
	case s.Topology.Agents:
		return "agent"
	}
	return ""
}

// has reports whether something holds of a fault of the scenario, or of one inside it.
func (s Scenario) has(is func(Fault) bool) bool {
	return slices.ContainsFunc(s.Faults, func(f Fault) bool { return f.has(is) })
}

// has reports whether something holds of the fault, or of one inside it.
func (f Fault) has(is func(Fault) bool) bool {
	return is(f) || slices.ContainsFunc(slices.Concat(f.With, f.Then), func(inner Fault) bool {
		return inner.has(is)
	})
}
