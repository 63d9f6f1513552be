package scenario

import "testing"

func TestEachPathTakesTheScenariosThatItCanRun(t *testing.T) {
	for name, want := range map[string]map[string]bool{
		"leader-paused":             {"sql": true, "carrier": true, "agent": true, "direct": true},
		"paused-inside-transaction": {"sql": true, "carrier": false, "agent": false, "direct": true},
		"leader-run-deaf-child":     {"sql": false, "carrier": true, "agent": false},
		"redis-killed":              {"sql": false, "carrier": true, "agent": true, "direct": true},
		"guard-paused":              {"sql": false, "carrier": true, "agent": true, "direct": false},
		"task-leader-paused":        {"sql": false, "carrier": false, "agent": false},
		"clock-jump":                {"sql": false, "carrier": false, "agent": false, "direct": true},
		"leader-stopped":            {"sql": true, "carrier": true, "agent": false, "direct": true},
		"agent-killed":              {"sql": false, "carrier": false, "agent": true},
	} {
		s, found := Find(name)
		if !found {
			t.Fatal(name)
		}
		for _, p := range Paths {
			on, ok := p.Over(s)
			if ok != want[p.Name] {
				t.Errorf("%s is on the path %s: %t", name, p.Name, ok)
			}
			if ok && on.Path() != p.Name {
				t.Errorf("%s on the path %s is built as %+v", name, p.Name, on.Topology)
			}
		}
	}
}
